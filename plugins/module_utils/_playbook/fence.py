"""A host switched off by a fence agent, and its power state read back.

The agents' interface is the one of ClusterLabs' FenceAgentAPI: options as lines of name=value on standard input;
`action=off` ends with 0; `action=status` ends with 0 for on, 2 for off, and 1 where it could not be read.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

_ON, _OFF = 0, 2
# Where Debian, Fedora and their kin have the agents, which is not in everybody's PATH.
_PLACES = "/usr/sbin:/sbin:/usr/local/sbin"
_AGAIN = 1.0  # seconds between two looks at the power state
_SHOWN = 300  # characters of what an agent says
_SHORT = 3  # characters


class FenceError(Exception):
    """The host is not proven to be off."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text} Nothing was started.")


class AgentMissing(FenceError):
    """The machine that is to run the fence agent does not have it."""


class AgentFailed(FenceError):
    """The fence agent failed: its own words are in the message."""


class AgentTimedOut(FenceError):
    """The fence agent did not answer."""


class StillOn(FenceError):
    """The fence agent was told to switch the host off, and its power state is on."""


def options_of(text: str | None) -> dict[str, Any]:
    """An agent's options, as JSON. Raises FenceError."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None  # what is wrong with it would show it
    if not isinstance(found, dict):
        raise FenceError("The options of the fence agent are not a dictionary as JSON.")
    return found


def fence(host: str, agent: str, options: Mapping[str, Any], timeout: int, acts: bool) -> dict[str, Any]:
    """Off, then read back as off. `acts` False: the state is read only. Raises FenceError."""
    path = shutil.which(agent, path=f"{os.environ.get('PATH', '')}:{_PLACES}")
    here = socket.gethostname()
    if path is None:
        raise AgentMissing(
            f"{here} has no fence agent {agent}: install fence-agents there, or name a host that has it"
            " (maintenance_fence_from)."
        )
    call = _Agent(host, path, options, timeout)
    changed = False
    if call("status") != _OFF and acts:
        call("off")
        changed = True
    until = time.monotonic() + timeout
    while not _is_off(call, until if changed else 0.0):
        if not acts:
            return {"powered_off": False, "changed": True}
        if time.monotonic() > until:
            raise StillOn(f"{agent} was told to switch {host} off, but after {timeout} s its status is still on.")
        time.sleep(_AGAIN)
    at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"powered_off": True, "proof": {"kind": "agent", "at": at, "by": here, "how": agent}, "changed": changed}


def _is_off(call: Callable[[str], int], until: float) -> bool:
    """A BMC that has just switched its host off may be busy: until then a status that cannot be read is none. Raises
    FenceError."""
    try:
        return call("status") == _OFF
    except AgentFailed:
        if time.monotonic() > until:
            raise
        return False


class _Agent:
    """One agent with its options."""

    def __init__(self, host: str, path: str, options: Mapping[str, Any], timeout: int) -> None:
        self._host, self._path, self._options, self._timeout = host, path, options, timeout

    def __call__(self, action: str) -> int:
        """The exit code: of `status` _ON or _OFF. Raises FenceError."""
        lines = [f"{name}={_text(value)}" for name, value in self._options.items() if name != "action"]
        name = os.path.basename(self._path)
        # `timeout` of coreutils ends the agent with all that it started.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            ["timeout", "-s", "KILL", str(self._timeout), self._path],
            input="\n".join([*lines, f"action={action}"]) + "\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        said, code = done.stdout, done.returncode
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
            raise AgentTimedOut(f"{name} for {self._host} did not answer {action} within {self._timeout} s.")
        good = (_ON, _OFF) if action == "status" else (0,)
        if code not in good:
            text = self._shown(" ".join(said.split()))[-_SHOWN:] or f"exit code {code}"
            raise AgentFailed(f"{name} for {self._host} failed at {action}: {text}.")
        return code

    def _shown(self, said: str) -> str:
        """Without what it was given, but for the host's name, which nobody hides, and short words such as 1."""
        given = {_text(value) for value in self._options.values()} - {self._host}
        for value in sorted(given, key=len, reverse=True):
            said = said.replace(value, "********") if len(value) > _SHORT else said
        return said


def _text(value: Any) -> str:
    """The value of an option as fence agents read it: 1 for true, and no line breaks, since a line is one option."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value).replace("\n", "")
