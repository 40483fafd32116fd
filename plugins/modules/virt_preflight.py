#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_preflight
short_description: Check whether a libvirt host can be drained
version_added: 0.1.0
description:
  - Reads the host that the module runs on, its VMs and its peers, and changes nothing.
  - Reports blockers and warnings, each with a typed code, what it is about, what to do, and what decides it.
    M(virtops.maintenance.virt_drain) decides by the same code, so it has to be given the same policy.
author:
  - The virtops.maintenance contributors (@virtops)
extends_documentation_fragment:
  - virtops.maintenance._libvirt
  - virtops.maintenance._libvirt.policy
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.info
  - virtops.maintenance._attributes.actiongroup
options:
  severity:
    description:
      - How severe single codes are. Maps a code to V(blocker), V(warning) or V(ignore).
      - A code that is not named keeps its default. The collection's docs/reasons.md has all codes
        with their defaults.
    type: dict
    default: {}
  measured:
    description:
      - What libvirt does not report of the hosts, measured by other means. The role
        P(virtops.maintenance.preflight#role) does that.
      - Without it the clocks are not compared, and whether the kernels of the peers permit
        post-copy, and whether QEMU has its certificates, is not known. All that is reported, as
        V(NotChecked).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the host, O(node) or one of O(peers).
        type: str
        required: true
      clock:
        description: Its clock minus the clock of whoever measured, in seconds.
        type: float
      clock_within:
        description:
          - Seconds by which O(measured[].clock) may be wrong, half of the time that the measurement
            took.
        type: float
        default: 0
      userfaultfd:
        description:
          - C(vm.unprivileged_userfaultfd) of its kernel.
          - V(-1) if the kernel has no such setting.
        type: int
      tls_dir:
        description:
          - Directory in which its QEMU has the certificates for migrations.
          - Not given if that is not known.
        type: str
      tls_missing:
        description: Names of the files that are missing there, for example V(server-cert.pem).
        type: list
        elements: str
        default: []
      tls_verify:
        description: Whether its QEMU wants a certificate of who migrates a VM to it.
        type: bool
        default: true
  controller_uuid:
    description:
      - UUID of the machine that Ansible runs on, to see whether it is a VM of this host.
      - The default is what that machine's firmware reports, if it can be read there.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Can this host be drained?
  virtops.maintenance.virt_preflight:
    node: host-a
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
        memory: 65536
  register: preflight

- name: Stop here if not
  ansible.builtin.assert:
    that: preflight.blockers | length == 0
    fail_msg: "{{ preflight.blockers }}"

- name: The same, where an older QEMU does not matter, and a clock that differs does
  virtops.maintenance.virt_preflight:
    node: host-a
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
    severity:
      NewerToOlder: warning
      ClockSkew: blocker
"""

RETURN = r"""
node:
  description: The host.
  returned: success
  type: str
findings:
  description: Everything that was found, blockers first, then by what it is about.
  returned: success
  type: list
  elements: dict
  contains:
    code:
      description: Typed code, see docs/reasons.md.
      type: str
    severity:
      description:
        - V(blocker), or V(warning).
        - What is a blocker by default is a warning if the drain can handle it, for example because
          policy says what to do with a VM that cannot migrate.
      type: str
    about:
      description: V(cluster), V(node) or V(vm).
      type: str
    plane:
      description: V(control) or V(data).
      type: str
    node:
      description: The host that was checked.
      type: str
    subject:
      description: Name of what it is about.
      type: str
    sentence:
      description: What the code means.
      type: str
    message:
      description: Details, such as the disk or the network. Empty if there are none.
      type: str
    remedy:
      description: What to do.
      type: str
    decided_by:
      description:
        - What decides it. For a VM this is the effective strategy and who set it, then the fact that it depends on.
      type: str
blockers:
  description: The blockers as one line each, with the remedy.
  returned: success
  type: list
  elements: str
  sample:
    - "BLOCKER DisksNotLiveMigratable VM db: Disk vdb is local -> Move the disk to shared storage"
node_blockers:
  description: The blockers that are not about a single VM. They keep all VMs on the host.
  returned: success
  type: list
  elements: str
cautions:
  description: The warnings as one line each, with the remedy.
  returned: success
  type: list
  elements: str
fleet:
  description:
    - The host, its VMs and its peers as M(virtops.maintenance.maintenance_plan) takes them, after the filter
      P(virtops.maintenance.plan_fleet#filter).
  returned: success
  type: dict
vms_checked:
  description: How many VMs of the host were checked.
  returned: success
  type: int
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: LibvirtMissing
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.severity import parse_severity
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight.check import Measured, preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request

MEASURED_SPEC = {
    "name": {"type": "str", "required": True},
    "clock": {"type": "float"},
    "clock_within": {"type": "float", "default": 0.0},
    "userfaultfd": {"type": "int"},
    "tls_dir": {"type": "str"},
    "tls_missing": {"type": "list", "elements": "str", "default": []},
    "tls_verify": {"type": "bool", "default": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **options.HOSTS_SPEC,
            **options.POLICY_SPEC,
            "severity": {"type": "dict", "default": {}},
            "measured": {"type": "list", "elements": "dict", "default": [], "options": MEASURED_SPEC},
            "controller_uuid": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = options.params_of(module)
    try:
        with as_failed():
            severity = parse_severity(params["severity"])
            request = Request(
                own=options.own_config(params),
                peers=options.peer_configs(params),
                policy=options.policy(params),
                intent=Intent.DRAINED,
                run_id="preflight",
                controller_uuid=params["controller_uuid"],
            )
            measured = [Measured(**one) for one in params["measured"]]
            result = preflight(request, severity, measured)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
