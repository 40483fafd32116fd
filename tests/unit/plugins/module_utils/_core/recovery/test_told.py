"""What is told of a recovery to who does not run it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import Kind, Proof
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.told import event, in_status, notices

PROOF = Proof(Kind.AGENT, "T2", "fence_lab on ctl", "fence_lab")


def result(phase: str, *verdicts: str) -> dict[str, Any]:
    vms = [{"name": f"vm{n}", "verdict": one, "message": "why" * (one == "stays")} for n, one in enumerate(verdicts)]
    about = {"looks": "ProbablyDead", "found_dead": "T1", "message": "a lives.", "proof": PROOF.to_dict()}
    return {"host": "a", "phase": phase, "vms": vms, **about}


@pytest.mark.parametrize(
    ("found_dead", "proof", "vms", "said"),
    [
        ("", None, 0, ""),
        ("T1", None, 0, "found dead at T1, and nothing proves that it is off: run the playbook recover for a"),
        ("T1", PROOF, 1, "recovered (off at T2, by fence_lab (fence_lab on ctl)), 1 VM started elsewhere; once it is"),
        ("", None, 2, "recovered, 2 VMs started elsewhere, and seen alive since: run the playbook recover for a again"),
    ],
)
def test_the_status_says_of_a_host_that_died_how_far_it_is(
    found_dead: str, proof: Proof | None, vms: int, said: str
) -> None:
    text = in_status("a", found_dead, proof, vms)
    assert text.startswith(said) if said else not text


@pytest.mark.parametrize(
    ("phase", "begins", "ends", "noted"),
    [
        ("Recovering", True, True, ["Began"]),
        ("Recovered", True, True, ["Began", "Ended"]),
        ("Blocked", False, True, ["Failed"]),
        ("Blocked", False, False, []),
        ("Returned", False, True, ["Ended"]),
        ("Unproven", False, True, []),
    ],
)
def test_a_node_has_an_event_when_its_recovery_begins_and_ends(
    phase: str, begins: bool, ends: bool, noted: list[str]
) -> None:
    told = list(notices(result(phase, "runs", "stays"), "run 7 of ann", begins, ends))
    assert [reason.removeprefix("MaintenanceRecovery") for reason, _text, _good in told] == noted
    assert all(text.endswith("run 7 of ann") for _reason, text, _good in told)
    assert all(good is (not reason.endswith("Failed")) for reason, _text, good in told)


def test_a_notification_has_its_figures_and_a_sentence() -> None:
    told = event(result("Recovered", "runs", "start", "off"), "")
    assert (told["event"], told["host"], told["started"], told["stays"]) == ("recovered", "a", 2, [])
    assert told["message"] == "a is recovered: off at T2, by fence_lab (fence_lab on ctl), 2 VMs started elsewhere"
    told = event(result("Blocked", "runs", "stays"), "a is recovered except for vm1.")
    assert (told["event"], told["message"], told["stays"]) == ("failed", "a is recovered except for vm1.", ["vm1"])
    assert event(result("Alive"), "")["message"] == "a lives."
