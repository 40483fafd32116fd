#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_recovery
short_description: Start the VMs of a dead libvirt host on other hosts, once the host is proven to be off
version_added: 0.1.0
description:
  - V(protected) runs on a host while it lives. It stores the definitions of its VMs on up to three peers, and which
    hosts of the fleet can take each of them. That none of them stores any is an error.
  - V(seen) runs on a peer of a host that does not answer. It reports what is seen of it from there, and changes
    nothing.
  - V(recovered) runs on a peer. With a proof that the host is off it starts its VMs on other hosts. Without one it
    records when the host was found dead. If the host is back, it removes the VMs that were taken over from it.
  - A VM is started on one host only. Before each start that target is written to a record on most of the peers that
    keep the definitions. When the host is back, its guard (O(guard)) asks for that record before it starts a VM.
  - The playbooks C(protect) and C(recover) call it; see docs/dead-host.md.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  state:
    description: What is wanted.
    type: str
    choices: [protected, seen, recovered]
    required: true
  host:
    description:
      - Name of the host that died, one of O(peers).
      - Required if O(state) is V(seen) or V(recovered).
    type: str
  guard:
    description:
      - Whether this host gets a hook of libvirt (C(/etc/libvirt/hooks/qemu.d/50-virtops-guard)) that asks its peers
        before each start of a VM, and refuses it if the VM was taken over or too few peers answer. V(false) removes it.
      - Default is to leave it as it is. libvirt uses a new hook from its next start on.
    type: bool
  views:
    description: What observers saw of the host, each as RV(view).
    type: list
    elements: dict
    default: []
  stays_off:
    description:
      - Set it if the host will not come back. Then VMs whose autostart is on are started elsewhere too, although
        nothing would keep the host from starting them again.
    type: bool
    default: false
  reserve:
    description:
      - As O(peers[].reserve), of the host that the module runs on. With O(state=recovered) it takes VMs, too.
    type: int
    default: 0
  labels:
    description: As O(peers[].labels), of the host that the module runs on.
    type: dict
    default: {}
  taints:
    description: As O(peers[].taints), of the host that the module runs on.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - virtops.maintenance._recovery
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._roll.run
  - virtops.maintenance._libvirt
  - virtops.maintenance._libvirt.policy
  - virtops.maintenance._libvirt.run
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Leave what is needed with the peers
  virtops.maintenance.virt_recovery:
    state: protected
    node: "{{ inventory_hostname }}"
    peers: "{{ groups['kvm'] | virtops.maintenance.peers(hostvars, inventory_hostname) }}"
    guard: true

- name: See how a host looks from a peer of it
  virtops.maintenance.virt_recovery:
    state: seen
    host: host-a
    node: host-b
    peers: "{{ groups['kvm'] | virtops.maintenance.peers(hostvars, 'host-b') }}"
  delegate_to: host-b
  register: seen
"""

RETURN = r"""
view:
  description: What was seen of the host from here.
  returned: if O(state) is V(seen)
  type: dict
  contains:
    by:
      description: Who looked.
      type: str
    at:
      description: When it looked, UTC.
      type: str
    answers:
      description: Whether its kernel answers, if only to refuse.
      type: bool
    libvirt:
      description: Whether its libvirtd answers.
      type: bool
    guests:
      description: Its VMs that show signs of life, with the sign.
      type: list
      elements: str
    text:
      description: What was tried, and what came of it.
      type: str
    looked:
      description: Whether it could look. If not, RV(view.text) says why.
      type: bool
    boot_id:
      description: The host's, where Ansible's own connection reached it.
      type: str
    idle:
      description: Whether Ansible's own connection saw that no QEMU runs there.
      type: bool
host:
  description: The host.
  returned: if O(state) is V(protected) or V(recovered)
  type: str
phase:
  description:
    - V(Alive), the host lives, and there was nothing to do. V(Returned), it lives, and the VMs that run elsewhere were
      removed from it. V(Unproven), it is not proven to be off, and nothing was started. V(Recovering), the slice was
      over first. V(Recovered), each VM runs elsewhere or was off. V(Blocked), some VMs stay, each with a reason.
      V(Stopped), the host answered, or another run took over.
  returned: if O(state) is V(recovered)
  type: str
looks:
  description: How the host looks, V(Alive), V(LibvirtDead) (it answers, libvirtd does not), V(CutOffFromController)
    (only its peers reach it), V(CutOff) (nobody reaches it, and its VMs show signs of life), V(ProbablyDead), or
    V(NotKnown).
  returned: if O(state) is V(recovered)
  type: str
may_be_fenced:
  description: Whether what was seen allows fencing the host.
  returned: if O(state) is V(recovered)
  type: bool
message:
  description: What was seen of the host and by whom, as a sentence.
  returned: if O(state) is V(recovered)
  type: str
found_dead:
  description: When it was found dead, UTC. O(confirm) needs this time. Empty if it was not.
  returned: if O(state) is V(recovered)
  type: str
proof:
  description: What proved that it is off, as recorded, with the keys of O(proof). Empty if nothing did.
  returned: if O(state) is V(recovered)
  type: dict
booted:
  description: Whether it was off since it died, by its boot ID, as a sentence. Empty if that is not known.
  returned: if RV(phase) is V(Returned) or V(Blocked), and the host lives
  type: str
protected_at:
  description: When the recovery data on the peers last changed, UTC. Empty if they have none, or were not asked.
  returned: if O(state) is V(recovered)
  type: str
vms:
  description:
    - The VMs of the host, each with C(name), C(uuid), C(reason) and C(message).
    - If O(state) is V(protected), also C(active), C(autostart), and C(protected), whether it could be started
      elsewhere.
    - If O(state) is V(recovered), also C(remedy), C(target), and C(verdict), which is V(runs), V(start), V(off) or
      V(stays), or once the host is back V(runs), V(removed), V(returns) or V(waits).
  returned: if O(state) is V(protected) or V(recovered)
  type: list
  elements: dict
kept_on:
  description: Peers that have the definitions of its VMs.
  returned: if O(state) is V(protected)
  type: list
  elements: str
guard:
  description: Whether the host has the guard (O(guard)).
  returned: if O(state) is V(protected)
  type: bool
not_kept_on:
  description: Peers that did not take them, each with the reason.
  returned: if O(state) is V(protected)
  type: list
  elements: str
not_asked:
  description: Peers that could not be asked who takes the VMs. They take none in a recovery.
  returned: if O(state) is V(protected)
  type: list
  elements: str
run_id:
  description: ID of the run, O(run_id) or the time, with a random part.
  returned: if O(state) is V(recovered)
  type: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: LibvirtMissing
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError, slice_seconds
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import View
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import SPEC, given_by
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery.keep import protect
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery.service import (
    Request,
    recover,
    seen_from,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def _request(params):
    try:
        views = [View.from_dict(raw) for raw in params["views"]]
    except (KeyError, TypeError) as exc:
        raise PolicyError(f"views: {exc!r} in an entry: expected what state seen returns") from None
    return Request(
        own=options.own_config(params),
        peers=options.peer_configs(params),
        host=params["host"],
        policy=options.policy(params),
        run_id=options.run_id(params),
        requester=options.requester(params),
        reason=params["reason"],
        seconds=slice_seconds(params["slice"]),
        views=views,
        **given_by(params),
        stays_off=params["stays_off"],
        roll_run=params["roll_run"],
        ask=lambda: lives.check(params["playbook"]),
    )


def _work(params, acts):
    if params["state"] == "protected":
        own, peers, policy = options.own_config(params), options.peer_configs(params), options.policy(params)
        return protect(own, peers, params["guard"], policy, acts)
    request = _request(params)
    if params["state"] == "seen":
        return {"view": seen_from(request).to_dict(), "changed": False}
    return recover(request, acts)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["protected", "seen", "recovered"], "required": True},
            "host": {"type": "str"},
            "guard": {"type": "bool"},
            "views": {"type": "list", "elements": "dict", "default": []},
            **SPEC,
            "stays_off": {"type": "bool", "default": False},
            "roll_run": {"type": "str", "default": ""},
            **options.HOSTS_SPEC,
            **options.TARGET_SPEC,
            **options.POLICY_SPEC,
            **options.RUN_SPEC,
            **lives.SPEC,
        },
        required_if=[("state", "seen", ["host"]), ("state", "recovered", ["host"])],
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    try:
        with as_failed():
            result = _work(options.params_of(module), not module.check_mode)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
