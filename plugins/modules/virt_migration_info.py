#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_migration_info
short_description: Read the migrations of a libvirt host
version_added: 0.1.0
description:
  - Returns the migrations away from the host that the module runs on. Those under way are read from libvirt, whoever
    started them.
  - Those that are over come from records. A drain's are returned until the host is restored. Those
    of M(virtops.maintenance.virt_migration) are returned until that VM is migrated again, the last
    ones of 32 VMs. What others migrated is not returned once it is over.
author:
  - The virtops.maintenance contributors (@virtops)
extends_documentation_fragment:
  - virtops.maintenance._libvirt
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.info
  - virtops.maintenance._attributes.actiongroup
"""

EXAMPLES = r"""
- name: Which migrations are under way?
  virtops.maintenance.virt_migration_info:
    node: host-a
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
  register: moving
"""

RETURN = r"""
node:
  description: The host.
  returned: success
  type: str
  sample: host-a
findings:
  description: Reasons that concern the host itself, always empty.
  returned: success
  type: list
  elements: dict
counts:
  description: How many VMs have which verdict; C(total) is all.
  returned: success
  type: dict
  sample: {moved: 3, pending: 1, total: 4}
certificate:
  description: Always none, because reading migrations proves nothing of a host.
  returned: success
  type: dict
migrations:
  description:
    - What the other modules call RV(ignore:vms), for those that are migrated. One entry a VM, with
      the migration that is under way, else with the one that began last.
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
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import LOOKS
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.check_mode import migrations
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request


def main() -> None:
    module = AnsibleModule(argument_spec={**options.HOSTS_SPEC}, supports_check_mode=True)
    module.debug(_kept.STATE)
    params = options.params_of(module)
    try:
        with as_failed():
            request = Request(
                own=options.own_config(params),
                peers=options.peer_configs(params),
                policy=Policy(),
                intent=Intent.DRAINED,
                run_id=LOOKS,
            )
            result = migrations(request)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
