"""Which targets have failed in this drain, by the attempts in its record. Pure.

Another host is preferred to one that failed, for the VM itself and for those that come after it. One that failed
for several VMs in a row is left alone for a while, as long as there is another that could take the VM at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..reasons.reason import LASTING, OF_THE_VM, Reason
from .observation import Outcome
from .record import Attempt, NodeRecord

# For what the target may be to blame. Not for a guest that writes too fast, an abort, a holder that died.
BLAMED = (
    LASTING | {Reason.MigrationFailed, Reason.ProgressTimeout, Reason.PeerUnreachable, Reason.TargetStoreFull}
) - OF_THE_VM
SEVERAL = 2  # VMs
A_WHILE = 300.0  # seconds after the last of them

Outcomes = Mapping["tuple[str, int]", Outcome]
Failures = Mapping[str, "list[tuple[str, Attempt]]"]  # host -> (the VM's name, its attempt), the oldest first


def failed_targets(record: NodeRecord, outcomes: Outcomes | None = None) -> Failures:
    """The targets that failed in this run, each with its failures since the last VM that it took.

    An attempt that is over counts before the record has its end, by its outcome or by the refusal of its request:
    another VM may be given its place by then.
    """
    mine = []
    for entry in record.vms.values():
        for attempt in entry.attempts:
            if attempt.run_id == record.run_id and attempt.target:
                mine.append((entry.name, _as_read(attempt, (outcomes or {}).get((entry.uuid, attempt.number)))))
    found: dict[str, list[tuple[str, Attempt]]] = {}
    for name, attempt in sorted(mine, key=lambda one: _when(one[1])):
        if attempt.ok:
            found.pop(attempt.target, None)
        elif attempt.finding is not None and attempt.finding.reason in BLAMED:
            found.setdefault(attempt.target, []).append((name, attempt))
    return found


def _as_read(attempt: Attempt, outcome: Outcome | None) -> Attempt:
    if attempt.ended or outcome is None or outcome.finding is None:
        return attempt
    return replace(attempt, reason=outcome.finding.reason.value, message=outcome.finding.message)


def left_alone(failures: Failures, now: float) -> frozenset[str]:
    """The targets that recently failed for several VMs in a row."""
    return frozenset(
        host
        for host, failed in failures.items()
        if len({name for name, _attempt in failed}) >= SEVERAL and now - _when(failed[-1][1]) < A_WHILE
    )


def _when(attempt: Attempt) -> float:
    return attempt.ended_at or attempt.started


def warnings(record: NodeRecord) -> list[str]:
    """A warning for each target that failed: for which VMs, with which reason, and what follows for this drain."""
    texts = []
    for host, failed in sorted(failed_targets(record).items()):
        names, last = list(dict.fromkeys(name for name, _attempt in failed)), failed[-1][1]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        then = f"It is not used for {A_WHILE:.0f} s" if len(names) >= SEVERAL else "Other hosts are preferred"
        text = (
            f"{host} failed as a target of {', '.join(names[:3])}{more} with {last.reason}: {last.message.rstrip('.')}."
        )
        texts.append(f"{text} {then} in this drain while another host can take the VM. Check what is wrong with it.")
    return texts
