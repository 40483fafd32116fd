# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often an act was tried is counted from slice to slice, or a refusal would be met for ever."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Ending,
    Intent,
    NodeRecord,
    VMRecord,
)


def stopped() -> NodeRecord:
    """A restore: `job` is transient and off, and was to be started."""
    entry = VMRecord("u", "job", persistent=False, stop_way="shutdown", stop_sent=1.0)
    return NodeRecord("a", "r", Intent.ACTIVE.value, runs=["r"], vms={"u": entry})


def test_a_start_that_is_always_refused_is_given_up_however_short_the_slices_are() -> None:
    record, starts = stopped(), 0
    nodes = {"a": Node("a", boot_id="boot"), "b": Node("b")}
    for second in range(0, 120, 2):
        before = None  # a slice begins
        for now in (second, second + 1):
            obs = Observation(nodes=nodes, vms={}, now=1000.0 + now)
            decision = decide(obs, {"a": record}, Policy(), before)
            record, before = decision.records["a"], decision.situations
            starts += [action.do for action in decision.actions].count(Do.START)
    assert starts == Policy().max_attempts
    assert record.vms["u"].ending == Ending.BLOCKED.value
