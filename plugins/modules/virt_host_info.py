#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_host_info
short_description: Read a libvirt host, its VMs, and what a drain would do with each
version_added: 0.1.0
description:
  - Reads the host that the module runs on and its peers, and changes nothing.
  - For each VM it returns where it is, whether it can migrate and why not, and what
    M(virtops.maintenance.virt_drain) would do with it under the same policy.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  controller_uuid:
    description:
      - UUID of the machine that Ansible runs on, to see whether it is a VM of this host. A drain
        moves that one last and never stops it.
      - The default is what that machine's firmware reports, if it can be read there.
    type: str
    default: ''
extends_documentation_fragment:
  - virtops.maintenance._libvirt
  - virtops.maintenance._libvirt.policy
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.info
  - virtops.maintenance._attributes.actiongroup
"""

EXAMPLES = r"""
- name: What would a drain of this host do?
  virtops.maintenance.virt_host_info:
    node: host-a
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
        memory: 65536
  register: host

- name: Show what stands in the way
  ansible.builtin.debug:
    msg: "{{ host.vms | selectattr('verdict', 'eq', 'blocked') }}"
"""

RETURN = r"""
node:
  description: The host.
  returned: success
  type: str
  sample: host-a
boot_id:
  description: The host's boot ID, which changes with each reboot.
  returned: success
  type: str
hosts:
  description: The host and its peers.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the host.
      type: str
    reachable:
      description: Whether its libvirt could be read.
      type: bool
    cordoned:
      description: Whether it is cordoned, so that no run of this collection places a VM there.
      type: bool
    memory_mib:
      description: Memory that is declared for VMs, MiB.
      type: int
    committed_mib:
      description: Maximum memory of its active VMs and RV(hosts[].reserved_mib) together, MiB.
      type: int
    reserved_mib:
      description: Memory that is reserved for VMs that are to come, MiB.
      type: int
    room_mib:
      description: Memory that is left for VMs, MiB. Negative if more is committed than declared.
      type: int
    vms:
      description: Number of active VMs.
      type: int
    inbound:
      description: Number of migrations to it that are under way or reserved.
      type: int
    message:
      description: Why it could not be read, or empty.
      type: str
unreachable_hosts:
  description: Hosts that could not be read, each with the reason.
  returned: success
  type: list
  elements: str
record:
  description: The record of the host's maintenance. None if there is none under way.
  returned: success
  type: dict
  contains:
    run_id:
      description: The run that wrote it last.
      type: str
    intent:
      description: The state that was asked for, V(drained), V(cordoned) or V(active).
      type: str
    requester:
      description: Who requested it.
      type: str
    reason:
      description: The reason that was given, or empty.
      type: str
    started:
      description: When the maintenance began, UTC.
      type: str
    blocked:
      description: When its last run ended as V(Blocked), UTC. Empty if it did not.
      type: str
    left:
      description: Whether the playbook of its last run was interrupted. Only the machine on which that playbook ran
        can know this; on any other one it is V(false).
      type: bool
    stays:
      description: The VMs that its last run left as V(blocked) or V(lost), each with C(name), C(uuid), C(reason),
        C(plane), C(message) and C(remedy).
      type: list
      elements: dict
    cordoned_by_us:
      description: Whether this maintenance set the cordon, so that a restore removes it.
      type: bool
    runs:
      description: IDs of all runs of this maintenance.
      type: list
      elements: str
fleet:
  description:
    - The host and its VMs as M(virtops.maintenance.maintenance_plan) takes them, after the
      filter P(virtops.maintenance.plan_fleet#filter).
  returned: success
  type: dict
  contains:
    host:
      description: The host.
      type: dict
    vms:
      description: Its VMs.
      type: list
      elements: dict
    peers:
      description: Its peers, with the sums of their VMs.
      type: list
      elements: dict
documents:
  description:
    - One document a VM, as rules and filters see it. The fields are the same on all platforms.
    - A VM whose definition could not be read has name and uuid only.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    namespace:
      description:
        - Its namespace. libvirt has none.
        - None if there is none.
      type: str
    uuid:
      description: Its UUID; on KubeVirt the UID of the VirtualMachineInstance.
      type: str
    node:
      description: Node it runs on.
      type: str
    labels:
      description: Labels, name to text. On libvirt those that its metadata declares.
      type: dict
    annotations:
      description: Annotations, name to text. On libvirt those that its metadata declares.
      type: dict
    owner:
      description:
        - Owner of the VM. On KubeVirt kind and name of the controlling owner, on libvirt what the
          metadata declares.
        - None if there is none.
      type: str
    anti_affinity_group:
      description:
        - VMs of one group are kept on different nodes. Empty if it is in none. On KubeVirt it is
          made of a required pod anti-affinity by host name that selects the VM itself; null if the
          VM has other rules about pods, which make no group.
        - None if it is not known.
      type: str
    eviction_strategy:
      description:
        - What the VM itself declares.
        - None if there is none.
      type: str
    memory_mib:
      description: Maximum memory, in MiB.
      type: int
    vcpus:
      description: Its virtual CPUs.
      type: int
    migratable:
      description:
        - Whether it can migrate from its node.
        - None if it is not known.
      type: bool
    reasons:
      description: Why it cannot, see docs/reasons.md. Empty if it can.
      type: list
      elements: str
    migration_method:
      description:
        - V(LiveMigration) with shared storage, V(BlockMigration) with copied storage.
        - None if it is not known.
      type: str
    volumes:
      description: Its disks.
      type: list
      elements: dict
      contains:
        target:
          description: The disk as the VM sees it, for example C(vda).
          type: str
        kind:
          description:
            - Where it comes from. libvirt's disk types (C(file), C(block), C(network), C(volume)),
              or the type of the volume on KubeVirt (C(persistentVolumeClaim), C(containerDisk)).
          type: str
        device:
          description: V(disk), V(cdrom), V(floppy) or V(lun).
          type: str
        source:
          description:
            - Path, pool and volume, URL, or name of the claim.
            - None if there is none.
          type: str
        format:
          description:
            - Image format, for example V(qcow2).
            - None if there is none.
          type: str
        shared:
          description:
            - Whether other nodes see the same data (on KubeVirt RWX).
            - None if it is not known.
          type: bool
        read_only:
          description: Whether the VM cannot write to it.
          type: bool
    networks:
      description: Names of the networks or bridges that it is connected to.
      type: list
      elements: str
    host_devices:
      description: Devices of the node that are passed to it.
      type: list
      elements: dict
      contains:
        kind:
          description: C(pci), C(usb), C(mdev), C(interface) (SR-IOV), C(gpu) and others.
          type: str
        source:
          description:
            - Which one, for example its address or resource name.
            - None if there is none.
          type: str
    launch_security:
      description:
        - Kind of memory encryption (C(sev), C(sev-snp), C(tdx), C(s390-pv)).
        - None if there is none.
      type: str
    autostart:
      description:
        - 'Whether it is started again by itself: libvirt''s autostart, or a run strategy of
          KubeVirt that does so.'
      type: bool
    run_strategy:
      description:
        - KubeVirt's run strategy. libvirt has none.
        - None if there is none.
      type: str
    persistent:
      description:
        - 'Whether its definition outlives it: a persistent domain, or a VirtualMachine behind the
          instance.'
      type: bool
    agent_connected:
      description:
        - Whether the guest's agent answers.
        - None if it is not known.
      type: bool
    dirty_rate:
      description:
        - MiB/s that the guest writes to its memory, if it was measured. On libvirt the option
          C(measure_dirty_rate) has QEMU measure it. On KubeVirt a Prometheus reports it, if the
          option C(metrics) names one; else it is null.
        - None if it is not known.
      type: float
findings:
  description: Reasons that concern the host itself, each with C(reason), C(plane), C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
counts:
  description: How many VMs have which verdict; C(total) is all.
  returned: success
  type: dict
  sample: {pending: 3, blocked: 1, total: 4}
certificate:
  description: Always none, because reading proves nothing.
  returned: success
  type: dict
vms:
  description: The VMs of the host and of its record, with what a drain would do.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: Its UUID.
      type: str
    strategy:
      description: The effective eviction strategy.
      type: str
    decided_by:
      description: Who decided what is done with the VM, a rule, the VM's declaration, the default or V(asked
        for).
      type: str
    way:
      description: What is done with it, for example V(migrate) or V(shutdown).
      type: str
    verdict:
      description: How it is accounted for. V(pending), V(moved), V(stopped), V(saved), V(cold_moved), V(off),
        V(gone), V(blocked), V(skipped), V(lost) or V(restored).
      type: str
    phase:
      description: Phase of its last migration, in KubeVirt's words. V(Pending) (also before its first one),
        V(Scheduled), V(Running), V(Succeeded), V(Failed), or empty.
      type: str
    source:
      description: The host that the module runs on.
      type: str
    target:
      description: Target of its last migration.
      type: str
    at:
      description: The host on which it was read last.
      type: str
    mode:
      description: Mode of its last migration, V(PreCopy), V(PostCopy) or V(Paused). Empty if it had none.
      type: str
    method:
      description: V(LiveMigration) with shared storage, V(BlockMigration) with copied storage. Empty if that
        is not known.
      type: str
    attempts:
      description: Migrations that were tried in this maintenance.
      type: int
    steps:
      description: What was done so that its last migration comes to its end, in order. The seconds are those
        in which it had the link.
      returned: when something was done
      type: list
      elements: str
      sample:
        - a pause of 2.0 s allowed after 9 s
        - post-copy after 84 s
    start:
      description: When its last migration was requested, UTC. Empty if someone else requested it.
      type: str
      sample: '2026-03-01T02:10:00Z'
    end:
      description: When that migration was seen to have ended. Empty until then, or without a start.
      type: str
      sample: '2026-03-01T02:10:42Z'
    requested_by:
      description: Who requested it. Empty if someone else requested it.
      type: str
      sample: alice@ctl
    abort_status:
      description: What came of the abort of its migration, V(Aborting), V(Succeeded) (the VM stays where
        it was), or V(Failed) (too late, the VM moves). Empty if no abort was requested.
      type: str
    processed_mib:
      description: MiB that the last migration moved.
      type: float
    duration:
      description: Seconds that the last migration took. V(0) until it has ended.
      type: float
    outage_ms:
      description: Milliseconds for which the guest did not run. Of a live migration the pause that libvirt
        measured; of a guest that is stopped from the request to the moment at which it was seen to run again,
        to the second. None if it is not known or not over.
      type: int
    progress:
      description: How far a migration or a save under way is, C(percent), C(processed_mib), C(total_mib),
        C(remaining_mib), C(rate_mib_s), and C(eta), the seconds that are left (None if they are not known).
      returned: while one is under way
      type: dict
    hooks:
      description: Task files of its rule's hooks, by V(before) and V(after). Empty if it has none.
      type: dict
    reason:
      description: Reason code, empty if nothing is wrong.
      type: str
    plane:
      description: V(control) or V(data).
      type: str
    message:
      description: Details, such as the disk or the network.
      type: str
    remedy:
      description: What to do.
      type: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: LibvirtMissing
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import LOOKS
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.check_mode import read_host
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request


def main() -> None:
    module = AnsibleModule(
        argument_spec={**options.HOSTS_SPEC, **options.POLICY_SPEC, "controller_uuid": {"type": "str", "default": ""}},
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = options.params_of(module)
    try:
        with as_failed():
            request = Request(
                own=options.own_config(params),
                peers=options.peer_configs(params),
                policy=options.policy(params),
                intent=Intent.DRAINED,
                run_id=LOOKS,
                controller_uuid=params["controller_uuid"],
            )
            result = read_host(request)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
