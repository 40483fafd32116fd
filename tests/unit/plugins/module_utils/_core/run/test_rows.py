from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Observation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Attempt, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import vm_row


@pytest.mark.parametrize(
    ("work", "here", "phase"), [("m1", True, "Failed"), ("", True, "Scheduled"), ("m1", False, "Scheduled")]
)
def test_a_migration_whose_object_is_over_is_not_scheduled(work: str, here: bool, phase: str) -> None:
    """KubeVirt writes why it failed some seconds later, and only then is the attempt closed."""
    entry = VMRecord("u", "vm", attempts=[Attempt(1, "b", "", 1.0, "boot", wall="2026-01-01T00:00:00Z", work=work)])
    vms = {"u": VM(uuid="u", name="vm", node="a", state=State.RUNNING)} if here else {}
    assert vm_row(entry, Observation(nodes={}, vms=vms), "a")["phase"] == phase
