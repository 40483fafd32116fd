"""The result of a drain of a thousand VMs is one event, which AWX stores and shows: how large it is."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.certificate import Certificate
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    Ending,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Platform, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.report import Report
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import rows

MOST, VMS = 700_000, 1000
NODE, TARGET = "worker-001.example.com", "worker-002.example.com"
WHY = Finding(Reason.StopNotAllowed, "Its strategy is None: it cannot be migrated and would have to be stopped.")


def _vm(number: int) -> VMRecord:
    name = str(uuid.UUID(int=number << 64 | number))
    return VMRecord(
        name, f"production/web-frontend-{number:04}", strategy="LiveMigrate", decided_by="VM", way="migrate"
    )


def _moved(number: int) -> VMRecord:
    vm = _vm(number)
    done = {"ended": True, "ok": True, "ended_at": 142.1, "seconds": 42.125, "processed": 9 << 30, "downtime_ms": 112}
    attempt = Attempt(1, TARGET, "LiveMigration", 100.0, "boot", wall="2026-01-01T00:00:00Z", **done)
    attempt.requester = "operations@example.com"
    vm.attempts.append(attempt)
    vm.end(Ending.MOVED, TARGET)
    return vm


def _blocked(number: int) -> VMRecord:
    vm = _vm(number)
    vm.end(Ending.BLOCKED, NODE, WHY)
    return vm


def _size(vms: list[VMRecord], **more: Any) -> int:
    record = NodeRecord(NODE, "1795638915-abc123", vms={vm.uuid: vm for vm in vms})
    seen = Observation({}, {}, platform=Platform.KUBEVIRT)
    report = Report(Platform.KUBEVIRT, NODE, record.run_id, NodePhase.DRAINED, vms=rows(record, seen), **more)
    return len(json.dumps(report.to_dict()).encode())


def test_the_result_of_a_drain_of_a_thousand_vms_is_a_small_event() -> None:
    moved = [_moved(number) for number in range(VMS)]
    where = {vm.uuid: f"moved to {TARGET}" for vm in moved}
    certificate = Certificate(NODE, "boot", "run", 1.0, 2.0, where).to_dict()
    size = _size(moved, certificate=certificate)
    print(f"drained: {size / VMS:.0f} bytes a VM")
    assert size < MOST


def test_one_where_every_vm_stays_is_so_too() -> None:
    size = _size([_blocked(number) for number in range(VMS)])
    print(f"blocked: {size / VMS:.0f} bytes a VM")
    assert size < MOST
