"""How a host looks, and what proves that it is off."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import (
    CONTROLLER,
    Looks,
    View,
    judge,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import (
    Proof,
    confirmed,
    contradicted,
    said_by_tasks,
)

AT = "2026-11-27T14:03:00Z"


def view(by: str, answers: bool = False, libvirt: bool = False, guests: tuple[str, ...] = ()) -> View:
    return View(by, AT, answers, libvirt, guests, "tried")


SILENT = [view(CONTROLLER), view("host-b"), view("host-c")]
LIVES = "vm1 (its disk is written to)"


@pytest.mark.parametrize(
    ("views", "looks", "fenced", "lives"),
    [
        (SILENT, Looks.PROBABLY_DEAD, True, False),
        ([*SILENT[:2], view("host-c", guests=(LIVES,))], Looks.CUT_OFF, True, False),
        ([view(CONTROLLER), view("host-b", answers=True), SILENT[2]], Looks.LIBVIRT_DEAD, False, True),
        ([view(CONTROLLER, answers=True), *SILENT[1:]], Looks.LIBVIRT_DEAD, False, True),
        ([view(CONTROLLER), view("host-b", True, True), SILENT[2]], Looks.CUT_OFF_FROM_CONTROLLER, False, True),
        ([view(CONTROLLER, True), view("host-b", True, True)], Looks.ALIVE, False, True),
        (SILENT[:2], Looks.NOT_KNOWN, False, False),  # one peer may be the one that is cut off
        (SILENT[:1], Looks.NOT_KNOWN, False, False),
    ],
)
def test_how_a_host_looks(views: list[View], looks: Looks, fenced: bool, lives: bool) -> None:
    judged = judge("host-a", views, peers=2)
    assert (judged.looks, judged.may_be_fenced, judged.lives) == (looks, fenced, lives)
    assert all(AT in judged.text and one.by in judged.text for one in views)


def test_a_peer_that_could_not_look_is_named_and_counts_for_nothing() -> None:
    late = View("host-c", AT, text="libvirt is missing", looked=False)
    judged = judge("host-a", [*SILENT[:2], late], peers=2)
    assert judged.looks is Looks.NOT_KNOWN and "host-c could not look: libvirt is missing" in judged.text
    assert View.from_dict(late.to_dict()) == late
    judged = judge("host-a", [*SILENT, View("host-d", AT, text="no route", looked=False)], peers=3)
    assert judged.looks is Looks.PROBABLY_DEAD and "host-d could not look: no route" in judged.text


def test_in_a_fleet_of_two_the_only_peer_is_enough() -> None:
    assert judge("host-a", SILENT[:2], peers=1).looks is Looks.PROBABLY_DEAD


def test_a_guest_that_lives_contradicts_whatever_says_off() -> None:
    assert contradicted([*SILENT, view("host-d", guests=(LIVES,))]) == (LIVES,)
    assert contradicted(SILENT) == ()


def test_a_person_confirms_the_moment_at_which_this_host_was_found_dead() -> None:
    assert confirmed(f"host-a@{AT}", "host-a", AT, "alice", "2026-11-27T15:02:00Z").by == "alice"
    with pytest.raises(PolicyError, match="over an hour ago"):
        confirmed(f"host-a@{AT}", "host-a", AT, "alice", "2026-11-27T15:04:00Z")


@pytest.mark.parametrize(
    ("given", "found", "words"),
    [
        (f"host-b@{AT}", AT, "is about host-b"),
        ("host-a@2026-11-27T13:03:00Z", AT, f"found dead at {AT}"),
        (f"host-a@{AT}", "", "no earlier run found host-a dead"),
        ("host-a", AT, "expected HOST@TIME"),
        ("yes", AT, "expected HOST@TIME"),
    ],
)
def test_another_host_or_hour_proves_nothing(given: str, found: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        confirmed(given, "host-a", found, "alice", AT)


def test_the_users_tasks_say_how_they_read_it() -> None:
    proof = said_by_tasks({"tasks": "pdu.yml", "said": "outlet 7 reads off", "before": ""}, "host-a", AT)
    assert str(proof) == f"off at {AT}, by outlet 7 reads off (the tasks pdu.yml)"


@pytest.mark.parametrize(
    ("said", "before", "words"),
    [
        ("", "", "did not set maintenance_off"),
        (None, "", "did not set maintenance_off"),
        (False, "", "did not set maintenance_off"),
        (True, "", "expected how they read that host-a is off"),
        ("on", "", "maintenance_off is 'on'"),  # the state that they read
        ("off", "", "expected how they read that host-a is off"),
        ({"state": "off now"}, "", "expected how"),
        ("outlet 7 reads off", "outlet 7 reads off", "before the tasks pdu.yml ran"),  # an extra var, or the inventory
    ],
)
def test_what_the_users_tasks_did_not_say_is_no_proof(said: object, before: object, words: str) -> None:
    with pytest.raises(PolicyError, match=words) as caught:
        said_by_tasks({"tasks": "pdu.yml", "said": said, "before": before}, "host-a", AT)
    assert str(caught.value).endswith("Nothing was started")


@pytest.mark.parametrize("raw", [{}, {"kind": "dream", "at": AT, "by": "x", "how": "y"}, {"kind": "agent", "at": AT}])
def test_what_does_not_say_who_when_and_how_is_no_proof(raw: dict[str, str]) -> None:
    with pytest.raises(PolicyError, match="proof"):
        Proof.from_dict(raw)
