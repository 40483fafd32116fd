"""Whether a host needs a reboot, from what its tools answer."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.reboot import (
    Told,
    in_vain,
    need,
    of_dnf,
    of_file,
    of_needrestart,
    recovers,
    with_recovery,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import reboot_mode

KERNELS = "NEEDRESTART-VER: 3.6\nNEEDRESTART-KCUR: 6.1.0-1\nNEEDRESTART-KEXP: 6.1.0-2\n"


@pytest.mark.parametrize(
    ("mode_of", "values"),
    [
        ("always", [None, "", True, "True", "yes", "on", "1", 1, "always"]),
        ("never", [False, "False", "no", "off", "0", 0, "never"]),
        ("auto", ["auto"]),
    ],
)
def test_what_maintenance_reboot_says(mode_of: str, values: list[object]) -> None:
    assert {reboot_mode(value) for value in values} == {mode_of}


def test_one_that_says_yes_is_enough() -> None:
    found = need("a", [Told("x", False, "no"), Told("y", True, "yes, for linux")])
    assert (found.reboot, found.known) == (True, True)
    assert found.message == "a needs a reboot: y says yes, for linux"


def test_one_that_says_no_is_believed_beside_one_that_cannot_tell() -> None:
    found = need("a", [Told("x", None, "nothing"), Told("y", False, "no")])
    assert (found.reboot, found.message) == (False, "a is not rebooted because it does not need it: y says no")


@pytest.mark.parametrize("told", [[], [Told("x", None, "nothing")]])
def test_a_host_on_which_nothing_can_tell_is_rebooted(told: list[Told]) -> None:
    found = need("a", told)
    assert (found.reboot, found.known) == (True, False)
    assert found.message.startswith("a is rebooted because nothing there says whether it needs it (")


def test_a_file_that_is_missing_says_no_only_where_something_writes_it() -> None:
    assert of_file(True, "linux-image\nlibc6\nlinux-image\n", False) == Told(
        "/run/reboot-required", True, "yes, for libc6, linux-image"
    )
    assert of_file(True, "a b c d e", True).why == "yes, for a, b, c and 2 more"
    assert of_file(False, "", True) == Told("/run/reboot-required", False, "no")
    assert of_file(False, "", False) is None


@pytest.mark.parametrize(
    ("out", "needed", "why"),
    [
        (KERNELS + "NEEDRESTART-KSTA: 1\n", False, "no"),
        (KERNELS + "NEEDRESTART-KSTA: 2\n", True, "yes, for the kernel 6.1.0-2 (6.1.0-1 runs)"),
        (KERNELS + "NEEDRESTART-KSTA: 3\n", True, "yes, for the kernel 6.1.0-2 (6.1.0-1 runs)"),
        ("NEEDRESTART-KSTA: 1\nNEEDRESTART-UCSTA: 2\n", True, "yes, for the CPU's microcode"),
        ("NEEDRESTART-KSTA: 0\n", None, "nothing of the kernel (it has failed)"),
        ("", None, "nothing of the kernel (it has failed)"),
    ],
)
def test_needrestart(out: str, needed: bool, why: str) -> None:
    assert of_needrestart(0, out, "it has failed.\n") == Told("needrestart", needed, why)


@pytest.mark.parametrize(
    ("rc", "out", "err", "needed"),
    [
        (0, "No core libraries or services have been updated since boot-up.", "", False),
        (1, "Core libraries ...\nReboot is required to fully utilize these updates.", "", True),
        (1, "", "No such command: needs-restarting.", None),
        (1, "", "Error: failed to load metadata", None),
    ],
)
def test_dnf_without_its_plugin_is_no_yes(rc: int, out: str, err: str, needed: bool) -> None:
    found = of_dnf(rc, out, err)
    assert found.needed is needed
    assert needed is not None or err.rstrip(".") in found.why


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("b1", "b1", "a never went down: its boot id is still the same, 900 s after it was asked to reboot. Find out"),
        ("b1", "b2", "Timed out"),
        ("", "b2", "Timed out"),
        ("b1", "", "a cannot be reached: it has not come up, 900 s after it was asked to reboot. If it does not"),
    ],
)
def test_a_reboot_that_failed_says_whether_the_host_went_down(before: str, now: str, said: str) -> None:
    assert in_vain("a", "Timed out", 900, before, now).startswith(said)


@pytest.mark.parametrize(
    ("failed_in", "boot_id", "on_dead", "fenced", "yes"),
    [
        (Stage.REBOOTING, "", "recover", True, True),
        (Stage.RESTORING, "b1", "recover", True, True),
        (Stage.RESTORING, "", "recover", True, False),
        (Stage.DRAINING, "b1", "recover", True, False),
        (Stage.REBOOTING, "b1", "tell", True, False),
        (Stage.REBOOTING, "b1", "", True, False),
        (Stage.REBOOTING, "b1", "recover", False, False),
    ],
)
def test_a_host_is_recovered_only_after_a_reboot_of_the_roll(
    failed_in: Stage, boot_id: str, on_dead: str, fenced: bool, yes: bool
) -> None:
    """And only where the user wants it, and gave a fence agent."""
    entry = HostEntry("a", Stage.FAILED, failed_in=failed_in, boot_id=boot_id)
    assert recovers(entry, {"on_dead": on_dead, "fenced": fenced}) is yes


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "It is lost"),
        (
            {"result": {"phase": "Recovered", "stats": {"proof": "off at T2, by fence_lab (ctl)"}}},
            "It is lost. Its recovery (maintenance_on_dead): its VMs run elsewhere (off at T2, by fence_lab (ctl))",
        ),
        (
            {"result": {"phase": "Alive", "message": "it lives."}},
            "It is lost. Its recovery (maintenance_on_dead): it lives",
        ),
        ({"failure": "no BMC."}, "It is lost. Its recovery is incomplete (maintenance_on_dead): no BMC"),
    ],
)
def test_why_a_host_failed_says_what_came_of_its_recovery(asked: dict[str, object], said: str) -> None:
    assert with_recovery("It is lost", asked) == said
