"""What is told of a module that was ended before it answered, as Ansible returns it."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.plugin_utils._module import without_answer

SUBJECT = "The module virt_drain on host-a"
NO_JSON = "Module result deserialization failed: No start of json char found"


def told(code: int, stderr: str = "", stdout: str = "") -> str:
    found = {"failed": True, "msg": NO_JSON, "rc": code, "module_stderr": stderr, "module_stdout": stdout}
    return without_answer(found, SUBJECT)


@pytest.mark.parametrize("code", [137, -9])
def test_one_that_was_killed_is_told_as_that(code: int) -> None:
    assert told(code, "Killed\n") == (
        "The module virt_drain on host-a was ended by SIGKILL before it answered. The kernel does that when the memory"
        " runs out: dmesg says so. The same command goes on from where it was."
    )


def test_of_another_signal_nothing_is_said_of_memory() -> None:
    assert told(139).startswith("The module virt_drain on host-a was ended by SIGSEGV before it answered. The same")


def test_of_another_end_its_last_words_are_told() -> None:
    found = told(1, "Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n\n")
    assert found.startswith(f"{SUBJECT} ended with exit code 1 and gave no answer. Its last words: OSError: [Errno 28]")
    assert "\x1b" not in told(1, "", "\x1b[31mno room")


@pytest.mark.parametrize("code", [0, 127])
def test_what_ansible_knows_better_is_its_own(code: int) -> None:
    """An interpreter that is not there, and a module that prints no JSON."""
    assert told(code, "sh: 1: /usr/bin/python: not found") == ""


def test_an_answer_stays_as_it_is() -> None:
    assert without_answer({"failed": True, "msg": "host-a has no pool", "rc": 137}, SUBJECT) == ""
