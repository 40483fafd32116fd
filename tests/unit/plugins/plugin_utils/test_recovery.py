"""What is printed of a recovery, and why a host is not recovered."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.plugin_utils._recovery import failure, lines, unprotected, warnings


def vm(verdict: str, message: str = "", reason: str = "", remedy: str = "", target: str = "b") -> dict[str, str]:
    words = {"verdict": verdict, "message": message, "reason": reason, "remedy": remedy, "target": target}
    return {"name": "web", "uuid": "u", **words}


def result(phase: str, *vms: dict[str, str], **more: Any) -> dict[str, Any]:
    about = {"looks": "ProbablyDead", "message": "a is probably dead.", "may_be_fenced": True, "found_dead": ""}
    return {"host": "a", "phase": phase, "vms": list(vms), **about, **more}


@pytest.mark.parametrize(
    ("phase", "row", "check", "text"),
    [
        ("Recovered", vm("runs"), False, "web runs on b"),
        ("Recovered", vm("off", target=""), False, None),
        ("Recovered", vm("start"), True, "web would be started on b"),
        ("Recovering", vm("start"), False, None),
        (
            "Blocked",
            vm("start", "Whether it runs on b is not known."),
            False,
            "web: Whether it runs on b is not known.",
        ),
        (
            "Blocked",
            vm("runs", "Its autostart is not set there."),
            False,
            "web runs on b. Its autostart is not set there.",
        ),
        (
            "Blocked",
            vm("stays", "Disk vda is local.", "X", "Move it."),
            False,
            "web stays: X: Disk vda is local. Move it.",
        ),
        ("Returned", vm("removed"), False, "web runs on b: its definition here is removed"),
        ("Returned", vm("removed"), True, "web runs on b: its definition here would be removed"),
        ("Returned", vm("runs"), False, "web runs on b"),
        ("Returned", vm("returns", "Start it there."), False, "Start it there."),
        ("Blocked", vm("waits", "b cannot be read."), False, "b cannot be read."),
        ("Unproven", vm("start"), False, None),
    ],
)
def test_each_vm_is_one_line_or_none(phase: str, row: dict[str, str], check: bool, text: str | None) -> None:
    assert list(lines(result(phase, row), check)) == ([] if text is None else [f"a  {text}"])


def test_of_when_the_vms_are_is_said() -> None:
    (text, _row) = lines(result("Recovered", vm("runs"), protected_at="T0"), False)
    assert text == "a  Its VMs are those that it had at T0. protect records who came later."


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (result("Recovered", vm("runs")), None),
        (result("Returned"), None),
        (result("Alive", looks="Alive"), None),
        (result("Alive", looks="LibvirtDead"), "Nothing was started"),
        (result("Unproven", may_be_fenced=False), "Nothing was started"),
        (result("Unproven"), "nothing would be started"),
        (result("Unproven", found_dead="T1"), "-e maintenance_confirm_off=a@T1"),
        (result("Blocked", vm("stays", "It is local.")), "recovered except for web"),
        (result("Stopped", message="a answers again"), "a answers again. What was started before that keeps running."),
    ],
)
def test_why_a_host_is_not_recovered(found: dict[str, Any], words: str | None) -> None:
    assert (words in failure(found)) if words else failure(found) == ""


def test_what_protect_says() -> None:
    left = {"name": "db", "protected": False, "reason": "X", "message": "Disk vda is local."}
    about = {"kept_on": ["b"], "not_kept_on": ["c (off)"], "not_asked": ["d"], "guard": False}
    found = {"host": "a", "vms": [{"protected": True}, left], **about}
    said = list(lines(found, False))
    assert said == [
        "a  1 of its 2 VMs could be started elsewhere; recovery data on b; it has no guard (maintenance_guard)",
        "a  db would stay: X: Disk vda is local.",
        "a  not asked whether they can take its VMs: d",
    ]
    assert warnings(found) == ["a: no recovery data on c (off)"] and not unprotected(found, False)


def test_a_host_whose_data_no_peer_took_is_not_protected() -> None:
    none = {"host": "a", "kept_on": [], "not_kept_on": ["b (its pool is full)", "c (off)"]}
    assert "on any peer: b (its pool is full), c (off)." in unprotected(none, False) and not warnings(none)
    assert "it has no peer" in unprotected({**none, "not_kept_on": []}, False)
    assert not unprotected(none, True) and not unprotected(result("Recovered"), False)


def test_a_host_that_nobody_switched_off_is_said_to_be_rid_of_its_vms_of_before() -> None:
    proof = {"kind": "boot", "at": "t", "by": "controller", "how": "it has booted since"}
    said = "a  Nobody switched it off: it is free of its earlier VMs, as seen at t: it has booted since (controller)."
    assert list(lines(result("Recovered", proof=proof), check=False)) == [said]
    assert not list(lines(result("Recovered", proof={**proof, "kind": "agent"}), check=False))
