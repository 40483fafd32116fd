# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the options that the libvirt modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """`hosts`: who takes part. `policy`: what is decided. `run`: who asks, and why."""

    DOCUMENTATION = r"""
options:
  node:
    description:
      - Name of the host that the module runs on, as the peers know it. Letters, digits, C(.),
        C(_) and C(-), not an address with colons.
      - Default is the host's own name.
    type: str
  uri:
    description: URI of the host's own libvirt.
    type: str
    default: qemu:///system
  memory:
    description:
      - Memory of the host for VMs, in MiB. V(0) takes all that libvirt reports.
    type: int
    default: 0
  peers:
    description:
      - The other hosts of the fleet. VMs are placed on them, and all of them are read to know
        where each VM runs.
      - All runs in a fleet must name the same hosts, or the limits of the cluster do not hold.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Name of the host. Every host of a fleet has a name of its own. Letters, digits, C(.),
            C(_) and C(-), not an address with colons.
        type: str
        required: true
      uri:
        description:
          - How the host that the module runs on reaches this one, for example
            V(qemu+tls://host-b/system) or V(qemu+ssh://host-b/system).
        type: str
        required: true
      migrate_uri:
        description: Where QEMU sends the memory, if not to the host of O(peers[].uri).
        type: str
        default: ''
      memory:
        description:
          - Memory for VMs, in MiB. V(0) takes all that libvirt reports. O(peers[].reserve) is subtracted from either.
            Set one of the two, or nothing is kept for the host and for QEMU itself.
        type: int
        default: 0
      reserve:
        description:
          - Memory to keep free on the host, in MiB.
          - Set it instead of O(peers[].memory) if you know what a host needs for other things than VMs, such as storage
            daemons or backups, and not how much is left for VMs, for example where hosts differ in size.
        type: int
        default: 0
      roll_rank:
        description: Position in the roll. A host that is still to come is chosen last.
        type: int
      roll_done:
        description: Whether its maintenance in this roll is over.
        type: bool
        default: false
      expects:
        description: UUIDs of VMs that the plan of the roll wants there. They go there if they still can.
        type: list
        elements: str
        default: []
      labels:
        description: Labels of the host, name to text, which node selectors and affinities use.
        type: dict
        default: {}
      taints:
        description:
          - Taints of the host, for example V(dedicated=db:NoSchedule). A VM that does not tolerate
            it is not placed there, or with C(PreferNoSchedule) only if nothing else fits.
        type: list
        elements: str
        default: []
  shared_paths:
    description:
      - Directories and devices of which you know that all hosts see the same data at that path.
        Absolute paths.
      - Needed only for what cannot be read, for example a SAN's device without a world-wide name. A disk at a path that
        is named here by mistake is not copied. For files, each target still has to show that it has the same directory;
        for devices your word is believed.
      - A running VM whose writable disk is a file there migrates only if libvirt also considers the file system shared.
        It knows NFS, CIFS, CephFS, GlusterFS, GFS2, OCFS2 and a few more; any other has to be named in
        C(shared_filesystems) of C(/etc/libvirt/qemu.conf) on all hosts, if their libvirt knows that setting. Else the
        VM moves only while it is off (V(cold_migrate)).
    type: list
    elements: str
    default: []
requirements:
  - python >= 3.9
  - libvirt-python (Debian package python3-libvirt) on the host
  - libvirt >= 9.0 on all hosts
"""

    RUN = r"""
options:
  run_id:
    description:
      - Identifies the run in records, results and the metadata of VMs.
      - Default is made from the time and a random part. Set it in a pipeline to the id of its job, such as
        C(awx_job_id), to find later which job moved or stopped a VM.
      - Use a new one for each run. Of two runs with the same id, one does not notice that the other has taken over.
    type: str
  requester:
    description: Who requests the maintenance. It is written into the records.
    type: str
    default: ''
  reason:
    description: Why it is done. It is written into the records.
    type: str
    default: ''
  slice:
    description:
      - Seconds after which one call on the host returns, so that progress can be shown.
      - The work goes on between two calls. There is no need to change it.
    type: int
    default: 8
  controller_uuid:
    description:
      - UUID of the machine that Ansible runs on. If it is a VM of this host, it is moved last and
        never stopped.
      - The default is what that machine's firmware reports, if it can be read there (mostly by
        root).
      - The guest through which ssh comes is known by its address.
    type: str
    default: ''
"""

    POLICY = r"""
options:
  strategy:
    description:
      - The eviction strategy of VMs that declare none.
      - A VM declares its own in its metadata; see the collection's documentation.
    type: str
    choices: [None, LiveMigrate, LiveMigrateIfPossible, External]
    default: LiveMigrate
  on_not_migratable:
    description:
      - What to do with a VM that should migrate and cannot.
      - V(block) leaves it running, and the host is not drained.
      - V(shutdown) asks the guest to shut down, disables its autostart, and records both for the restore.
      - V(save) saves its memory on the host (managed save); restore starts it from there.
      - V(cold_migrate) shuts it down, moves its definition, and starts it on another host. Its
        disks must be on shared storage.
      - V(skip) leaves it running. The host is then not certified as drained.
    type: str
    choices: [block, shutdown, save, cold_migrate, skip]
    default: block
  allow_stop:
    description:
      - Whether VMs may be stopped (shut down, saved, moved while off).
      - Without it no VM is ever stopped; it blocks with reason V(StopNotAllowed).
    type: bool
    default: false
  force_stop:
    description:
      - Whether a guest that does not shut down in O(shutdown_timeout) is powered off.
      - A guest that could not be asked to shut down is not.
    type: bool
    default: false
  move_inactive:
    description: Whether domains that are off are moved too. Otherwise they are only listed.
    type: bool
    default: false
  limits:
    description: How many migrations may be in flight at once.
    type: dict
    default: {}
    suboptions:
      cluster:
        description: In the whole fleet.
        type: int
        default: 5
      outbound:
        description: Away from one host.
        type: int
        default: 2
      inbound:
        description: To one host.
        type: int
        default: 2
  placement_profile:
    description:
      - How a target is chosen among the hosts that fit.
      - V(LowNodeUtilization) takes the one with most room. V(HighNodeUtilization) takes the one with least room that
        fits. Use it in a full fleet with some large VMs, which need the remaining room in one piece.
      - KubeVirt's scheduler has profiles of its own; this option is not used there.
    type: str
    choices: [LowNodeUtilization, HighNodeUtilization]
    default: LowNodeUtilization
  anti_affinity:
    description:
      - Whether VMs of one anti-affinity group are kept on different hosts where possible (V(preferred)), or always
        (V(required)). With V(required) a VM blocks if there is no such host.
    type: str
    choices: [preferred, required]
    default: preferred
  migration:
    description: How VMs are migrated.
    type: dict
    default: {}
    suboptions:
      bandwidth:
        description: The most that one migration may use, in MiB/s, in post-copy too. V(0) is no limit.
        type: int
        default: 0
      auto_converge:
        description: Slow the guest down when it dirties memory faster than the link moves it.
        type: bool
        default: false
      post_copy:
        description:
          - Allow post-copy, in which the guest runs on the target before all its memory is there.
          - If the link breaks meanwhile, the VM stands still until the link is fixed.
        type: bool
        default: false
        aliases: [allow_post_copy]
      tls:
        description:
          - Encrypt memory and disks while they are transferred, by QEMU's own TLS.
          - With V(false) they go in the clear from QEMU to QEMU. A peer's C(qemu+tls) URI
            protects only what the two libvirt daemons say to each other.
          - Needs QEMU's migration certificates on all hosts (C(/etc/pki/qemu)).
        type: bool
        default: false
      parallel_connections:
        description:
          - Connections of one migration. V(0) uses one.
          - It cannot be combined with O(migration.post_copy), since QEMU before 10.1 cannot do both.
        type: int
        default: 0
        aliases: [parallel]
      compression:
        description:
          - Compression methods of libvirt. QEMU refuses V(mt) with O(migration.parallel_connections), and so does this
            collection.
        type: list
        elements: str
        choices: [mt, xbzrle]
        default: []
      completion_timeout_per_gib:
        description: Seconds for each GiB of memory and copied disk, after which O(migration.on_timeout) applies.
        type: int
        default: 150
      progress_timeout:
        description: Seconds without progress, after which O(migration.on_timeout) applies.
        type: int
        default: 150
      max_downtime_ms:
        description:
          - Milliseconds that the guest may be paused at the end of a migration. With a longer pause a guest that writes
            much to its memory can converge.
          - V(0) leaves it to the hypervisor (300 in QEMU). A longer pause than that is allowed only once the migration
            is seen to need it.
        type: int
        default: 0
      on_timeout:
        description:
          - What to do when one of these times is over. V(post_copy) needs O(migration.post_copy).
          - V(post_copy) and V(pause) also apply when the migration was seen not to converge for half of
            O(migration.progress_timeout).
          - A migration in post-copy is never aborted.
        type: str
        choices: [abort, post_copy, pause]
        default: abort
  rules:
    description:
      - What to do with which VMs, in order. The first rule that matches a VM decides; what it does
        not set is left to what the VM declares, then to the other options.
      - Needs the Python package C(jmespath) on the host (Debian and RHEL package
        C(python3-jmespath)), where the VMs' documents are. The controller checks the rules first if
        it has the package too.
      - A wrong rule is an error that names it, and nothing is touched. This includes a field that
        no document has, a comparison of things that are never equal, and a rule that is never
        reached.
      - The fields of a document are documented with
        RV(virtops.maintenance.virt_host_info#module:documents).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the rule, as results show it. Each rule needs a different one.
        type: str
        required: true
      when:
        description:
          - JMESPath on the VM's document. Without it the rule matches all VMs. Only the last rule may omit it.
          - A comparison with a value that is not known is neither true nor false; see
            O(rules[].unknown).
        type: str
      strategy:
        description: The eviction strategy instead of the one that the VM declares.
        type: str
        choices: [None, LiveMigrate, LiveMigrateIfPossible, External]
      on_not_migratable:
        description: What to do with these VMs, instead of O(on_not_migratable).
        type: str
        choices: [block, shutdown, save, cold_migrate, skip]
      allow_stop:
        description: Whether these VMs may be stopped, instead of O(allow_stop). V(false) forbids what O(allow_stop)
          allows.
        type: bool
      allow_older_hypervisor:
        description:
          - The VM may migrate to a host whose QEMU is older, if that host has its machine type, with a version, and its
            libvirt says that the VM's CPU can run there.
          - What is not known there is named in the refusal.
        type: bool
      priority:
        description: VMs with a higher priority migrate first. Default is 0.
        type: int
      migration:
        description: Overrides single settings of O(migration) for these VMs. What is not set here is taken from there.
        type: dict
        suboptions:
          bandwidth:
            description: The most that one migration may use, in MiB/s, in post-copy too. V(0) is no limit.
            type: int
          auto_converge:
            description: Slow the guest down when it dirties memory faster than the link moves it.
            type: bool
          post_copy:
            description:
              - Allow post-copy, in which the guest runs on the target before all its memory is there.
              - If the link breaks meanwhile, the VM stands still until the link is fixed.
            type: bool
            aliases: [allow_post_copy]
          tls:
            description:
              - Encrypt memory and disks while they are transferred, by QEMU's own TLS.
              - With V(false) they go in the clear from QEMU to QEMU. A peer's C(qemu+tls) URI
                protects only what the two libvirt daemons say to each other.
              - Needs QEMU's migration certificates on all hosts (C(/etc/pki/qemu)).
            type: bool
          parallel_connections:
            description: Connections of one migration. V(0) uses one.
            type: int
            aliases: [parallel]
          compression:
            description:
              - Compression methods of libvirt. QEMU refuses V(mt) with O(rules[].migration.parallel_connections), and
                so does this collection.
            type: list
            elements: str
            choices: [mt, xbzrle]
          completion_timeout_per_gib:
            description:
              - Seconds for each GiB of memory and copied disk, after which O(rules[].migration.on_timeout) applies.
            type: int
          progress_timeout:
            description: Seconds without progress, after which O(rules[].migration.on_timeout) applies.
            type: int
          max_downtime_ms:
            description:
              - Milliseconds that the guest may be paused at the end of a migration. With a longer pause a guest that
                writes much to its memory can converge.
            type: int
          on_timeout:
            description:
              - What to do when one of these times is over. V(post_copy) needs O(rules[].migration.post_copy).
              - A migration in post-copy is never aborted.
            type: str
            choices: [abort, post_copy, pause]
      hooks:
        description:
          - Task files that the role C(drain) runs for the VM. It is not touched until V(before) was
            answered, and the host is not drained until V(after) was.
          - Paths on the controller, absolute or relative to the directory in which Ansible is started. They are checked
            before anything is done.
          - Without the role see RV(virtops.maintenance.virt_drain#module:needs) and
            O(virtops.maintenance.virt_drain#module:hooks_done).
          - Only M(virtops.maintenance.virt_drain) waits for them. Plans, preflights, and the migration of one VM ignore
            them.
        type: dict
        suboptions:
          before:
            description: Run before the VM is moved, stopped, or left to its owner.
            type: str
          after:
            description:
              - Run when the VM has arrived or was stopped, and again when a restore has started it.
            type: str
      unknown:
        description:
          - What to do with a VM for which O(rules[].when) has no answer, because a value is not
            known.
          - V(block) leaves it where it is, with reason V(Undecided).
          - V(match) applies the rule. V(next) goes on with the next rule.
          - Default is V(block).
        type: str
        choices: [block, match, next]
  measure_dirty_rate:
    description:
      - Seconds for which the memory of the running VMs is watched, V(1) to V(60), to fill
        C(dirty_rate) of their documents. Rules can use it, and the times of check mode and of
        plans take it. V(0) measures nothing.
      - All VMs of the host are measured at once, by their QEMU (virDomainStartDirtyRateCalc). It
        samples pages and changes nothing in the guest. A measurement of the last ten minutes is
        taken as it is, so that one call of a run waits and the next do not.
      - A VM that cannot be measured has C(dirty_rate) none. O(rules[].unknown) says what this
        means to a rule.
    type: int
    default: 0
  max_attempts:
    description: How often one VM's migration is tried in one run.
    type: int
    default: 3
  backoff:
    description: Seconds before the second attempt. Doubled for each further one.
    type: float
    default: 5.0
  shutdown_timeout:
    description:
      - Seconds for a guest to shut down, from when it has got the request.
      - It does not limit a save that is in progress.
      - A restore waits as long as the drain had given the guest, if that is longer.
    type: float
    default: 120.0
  external_timeout:
    description: Seconds to wait for the owner of a VM with strategy V(External).
    type: float
    default: 300.0
  unknown_timeout:
    description: Seconds to wait while it is not known whether a VM can migrate.
    type: float
    default: 60.0
  pending_timeout:
    description: Seconds to wait for room, for a host that cannot be read, or for a reservation.
    type: float
    default: 300.0
  drain_timeout:
    description: Seconds for the whole host. After that nothing new is started.
    type: float
    default: 3600.0
"""
