# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a code of the preflight means on KubeVirt, where the catalogue speaks of hosts.

A code that is a reason too has the words of objects/reason_texts.
"""

from __future__ import annotations

from dataclasses import replace

from ..._core.preflight.catalogue import CHECKS
from ..._core.preflight.codes import Check, CheckInfo, Platform
from ..objects.reason_texts import WORDS

_CONDITION = "the VMI's condition LiveMigratable"
_BY_CONDITION = (
    *(Check.DISKS, Check.INTERFACE, Check.HOTPLUG, Check.VIRTIOFS, Check.HOST_DEVICE),
    *(Check.SEV, Check.SECURE_EXECUTION, Check.TDX, Check.HYPERV_PASSTHROUGH),
    Check.PERSISTENT_RESERVATION,
)
_DECIDES: dict[Check, str] = {
    **dict.fromkeys(_BY_CONDITION, _CONDITION),
    Check.CPU_MODEL: "the nodes' CPU model labels",
    Check.NOT_RUNNING_NORMALLY: "the VMI's condition Paused",
    Check.NOT_KNOWN_YET: "the VMI has no condition LiveMigratable",
    Check.NO_TARGET: "the nodes' allocatable resources less what their pods request; affinity",
    Check.LAST_NODE: "the other nodes: Ready, kubevirt.io/schedulable, cordon, taints",
    Check.STORAGE_HERE: "VMI.status.migrationMethod",
    Check.IN_THE_CLEAR: "KubeVirt's migrations.disableTLS",
    Check.STAYS_OFF: "the strategy; runStrategy",
    Check.IN_FLIGHT: "unfinished migration objects",
    Check.INBOUND: "target pods on the node",
    Check.STUCK: "the age of the migration's phase and the state of its nodes",
    Check.LEFT_MARK: "VMI.status.evacuationNodeName; the node's record",
    Check.CORDONED: "spec.unschedulable; the annotation that a drain writes",
    Check.RUNS_THE_MAINTENANCE: "the pod and the guest in which Ansible runs",
}
_REMEDIES: dict[Check, str] = {
    Check.IN_THE_CLEAR: "Remove disableTLS from KubeVirt's migration configuration, or ignore this"
    " where the network is your own.",
    Check.STUCK: "Delete the migration (and its target pod).",
    # virtctl evacuate-cancel sends an empty node up to KubeVirt 1.9.0, and fails.
    Check.LEFT_MARK: "Cancel it (PUT evacuate/cancel of the VirtualMachineInstance, with its"
    " evacuationNodeName), unless someone evacuates the VM.",
}


_BY_CODE = {reason.value: words for reason, words in WORDS.items()}


def _on_kubevirt(check: Check, info: CheckInfo) -> CheckInfo:
    sentence, remedy = _BY_CODE.get(check.value, (info.sentence, info.remedy))
    return replace(
        info,
        sentence=sentence,
        remedy=_REMEDIES.get(check, remedy),
        decides=_DECIDES.get(check, info.decides),
    )


CHECKS_ON_KUBEVIRT: dict[Check, CheckInfo] = {
    check: _on_kubevirt(check, info)
    for check, info in CHECKS.items()
    if Platform.KUBEVIRT in info.platforms
}
