"""Of which VMs the written definition may be the only one, and that the record says what it is."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import copies, definitions
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.definitions import needed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import act, platform
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.records.test_definitions import (
    World,
)

MOVE = Attempt(1, "b", "", 0.0, "boot")


@pytest.mark.parametrize(
    ("made", "is_needed"),
    [
        ({"attempts": [MOVE]}, True),  # it may have died on its way
        ({"stop_way": "shutdown"}, True),
        ({}, False),  # nothing was done with it
        ({"stop_way": "shutdown", "persistent": True}, False),  # it is defined on one of the hosts
        ({"attempts": [MOVE], "ending": "moved"}, False),
    ],
)
def test_a_transient_vm_that_was_touched_may_be_nowhere_else(made: dict[str, Any], is_needed: bool) -> None:
    entry = VMRecord("job", "job", **{"persistent": False, **made})
    record = NodeRecord("host-a", "r1", vms={"job": entry})
    assert (needed(record, lambda _uuid: False) == {"job": "job"}) is is_needed
    assert needed(record, lambda _uuid: True) == {}, "what is here is read again"


def test_before_anything_is_stopped_the_record_says_what_the_definition_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whatever a peer gives back as a copy would have to be believed."""
    world, binding = World(), fakes.Binding()
    for module in (act, copies, definitions, platform):
        monkeypatch.setattr(module, "libvirt", binding)
    monkeypatch.setattr(platform, "Host", lambda config, *_a, **_k: world.hosts[config.name])
    assert world.stop(world.run(), "job") == {}
    kept = world.run().load()
    assert kept is not None
    assert kept.vms["job"].definition == hashlib.sha256(b"<job/>").hexdigest()
