"""How a module talks to the holder on its host: find or start it, order, ask, wait."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from ..host.errors import HolderError, HolderGone, HolderSilent

# Named here so that Ansible packs the holder into the module's archive.
from . import daemon

# Seconds for a new holder to be ready. It is one when it says so, and its end is heard at once; the
# time is for a Python and libvirt's binding that are read from a busy disk.
START_FOR = 60.0
# Seconds for an answer. A holder that has no processor answers late, and a drain that does not hear
# it decides nothing about its migrations: better late than blind.
ANSWER_FOR = 30.0
_BOOT = (
    "import sys; sys.path[:] = {path!r}; "
    "from {package} import daemon; sys.exit(daemon.main({uri!r}, {run_dir!r}, {log!r}))"
)


class HolderClient:
    """A connection to the holder. Not for several threads at once."""

    def __init__(self, sock: socket.socket, run_dir: str, uri: str, log: str) -> None:
        self._sock: socket.socket | None = sock
        self._where = (uri, run_dir, log)
        self._incoming = b""
        self._events: deque[dict[str, Any]] = deque()
        self._held: frozenset[str] = frozenset()
        self.silent = ""  # why the last `held` is older than the question
        self.held_for: dict[str, tuple[str, int]] = {}  # of the last `held`: see Observation
        self.never: dict[str, str] = {}  # of the last `held`: VMs that do not converge, with the numbers
        self.saves: dict[str, str] = {}  # of the last status: see Saves.status
        self.queued: frozenset[str] = frozenset()  # the same: those of them that have not begun
        self.stops: dict[str, dict[str, Any]] = {}  # the same: see Stops.status
        self._number = 0
        self._subscribed: float | None = None

    @classmethod
    def connect(
        cls, run_dir: str = daemon.RUN_DIR, uri: str = "qemu:///system", log: str = daemon.LOG
    ) -> HolderClient | None:
        """The holder that runs; None if there is none. Raises HolderSilent."""
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(ANSWER_FOR)
            sock.connect(os.path.join(run_dir, "holder.sock"))
        except (BlockingIOError, socket.timeout) as exc:
            sock.close()
            raise HolderSilent(_silence()) from exc
        except OSError:
            sock.close()
            return None
        return cls(sock, run_dir, uri, log)

    @property
    def alive(self) -> bool:
        return self._sock is not None

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    # Orders

    def order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Give an order, get its answer. A holder that has ended is started again, once.

        Giving an order twice does no harm: the holder knows the attempt, and adopts a job
        that is under way. Raises HolderError with the holder's text when it refuses.
        """
        try:
            answer = self._ask(order)
        except HolderSilent:
            raise
        except HolderGone as exc:
            try:
                self._reconnect(start=True)
            except HolderError as why:
                if exc.sent:
                    raise exc from why
                raise
            answer = self._ask(order)
        if not answer.get("ok"):
            raise HolderError(str(answer.get("error")))
        return answer

    def abort(self, uuid: str) -> dict[str, Any]:
        """Whoever began it. result: withdrawn, aborting, refused or none; message."""
        return self.order({"order": "abort", "uuid": uuid})

    def status(self) -> list[dict[str, Any]]:
        """A line for each migration under way; [] when there is no holder. Raises HolderSilent."""
        answer: dict[str, Any] = {}
        for _again in range(2):  # only the connection may have ended
            try:
                if self._sock is None:
                    self._reconnect(start=False)
                answer = self._ask({"order": "status"})
                break
            except HolderSilent:
                raise
            except HolderGone:
                continue
        self.saves = dict(answer.get("saves", {}))
        self.queued = frozenset(answer.get("queued", ()))
        self.stops = dict(answer.get("stops", {}))
        return list(answer.get("jobs", []))

    def held(self) -> frozenset[str]:
        """UUIDs of the VMs whose migration the holder looks after.

        While it does not answer those of its last answer; `silent` has the words.
        """
        self.silent = ""
        try:
            jobs = self.status()
        except HolderSilent as exc:
            self.silent = str(exc)
            return self._held
        self._held = frozenset(str(job["uuid"]) for job in jobs)
        self.held_for = {
            str(job["uuid"]): (str(job["run_id"]), int(job["attempt"])) for job in jobs if not job["watch"]
        }
        self.never = {str(job["uuid"]): str(job["never"]) for job in jobs if job.get("never")}
        self._events.clear()  # what happened before this answer is in it
        return self._held

    def subscribe(self, tick: float = 0.0) -> None:
        """Hear of every change, and every `tick` seconds of progress (0: never)."""
        self._ask({"order": "subscribe", "tick": tick})
        self._subscribed = tick

    def wait(self, timeout: float) -> list[dict[str, Any]]:
        """Events until now, or those that come next; [] when none came in `timeout` seconds.

        Subscribes to changes if that was not done. When the holder goes the time is slept out,
        so that a caller's loop does not spin.
        """
        until = time.monotonic() + timeout
        try:
            if self._sock is None:
                self._reconnect(start=False)
            if self._subscribed is None:
                self.subscribe()
            while not self._events:
                left = until - time.monotonic()
                if left <= 0 or not self._receive(left):
                    break
        except HolderGone:
            time.sleep(max(0.0, until - time.monotonic()))
        events = list(self._events)
        self._events.clear()
        return events

    def wait_for_end(self, timeout: float, gather: float = 0.0) -> frozenset[str]:
        """UUIDs whose migrations ended since `held`; empty when none did in `timeout` seconds.

        After the first one up to `gather` seconds are waited for others, while there are any.
        """
        until = time.monotonic() + timeout
        ended: frozenset[str] = frozenset()
        while True:
            events = self.wait(max(0.0, until - time.monotonic()))
            now = frozenset(e["job"]["uuid"] for e in events if e["event"] == "over")
            if now and not ended:
                until = min(until, time.monotonic() + gather)
            ended |= now
            if time.monotonic() >= until or (ended and self._held <= ended):
                return ended

    # The wire

    def _reconnect(self, start: bool) -> None:
        self.close()
        uri, run_dir, log = self._where
        fresh = self.connect(run_dir, uri, log)
        if fresh is None and start:
            fresh = ensure_holder(uri, run_dir, log)
        if fresh is None:
            raise HolderGone("there is no migration agent")
        tick = self._subscribed
        self._sock, fresh._sock = fresh._sock, None
        self._incoming, self._subscribed = b"", None
        if tick is not None:
            self.subscribe(tick)

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        if self._sock is None:
            raise HolderGone("not connected to the migration agent")
        try:
            return self._exchange(self._sock, order)
        except HolderGone as exc:
            exc.sent = True
            raise

    def _exchange(self, sock: socket.socket, order: Mapping[str, Any]) -> dict[str, Any]:
        self._number += 1
        line = json.dumps({**order, "id": self._number}).encode() + b"\n"
        try:
            sock.settimeout(ANSWER_FOR)
            sock.sendall(line)
        except socket.timeout as exc:
            self.close()
            raise HolderSilent(_silence()) from exc
        except OSError as exc:
            self.close()
            raise HolderGone(f"the migration agent has ended: {exc}") from exc
        until = time.monotonic() + ANSWER_FOR
        while True:
            left = until - time.monotonic()
            if left <= 0:
                self.close()
                raise HolderSilent(_silence())
            message = self._message(left)
            if message is not None and "event" in message:
                self._events.append(message)
            elif message is not None and message.get("id") == self._number:
                return message

    def _receive(self, timeout: float) -> bool:
        """Take in one event. False: none came."""
        message = self._message(timeout)
        if message is not None and "event" in message:
            self._events.append(message)
        return message is not None

    def _message(self, timeout: float) -> dict[str, Any] | None:
        until = time.monotonic() + timeout
        while b"\n" not in self._incoming:
            left = until - time.monotonic()
            if self._sock is None:
                raise HolderGone("not connected to the migration agent")
            if left <= 0 or not select.select([self._sock], [], [], left)[0]:
                return None
            try:
                data = self._sock.recv(65536)
            except OSError as exc:
                data = b""
                cause: OSError | None = exc
            else:
                cause = None
            if not data:
                self.close()
                raise HolderGone("the migration agent has ended") from cause
            self._incoming += data
        line, _newline, self._incoming = self._incoming.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def _silence() -> str:
    return f"the migration agent did not answer within {ANSWER_FOR:.0f} s"


def ensure_holder(uri: str = "qemu:///system", run_dir: str = daemon.RUN_DIR, log: str = daemon.LOG) -> HolderClient:
    """Connect to the holder, and start one where none runs. Safe against others who do the same.

    Raises HolderError with what the new process said.
    """
    until = time.monotonic() + START_FOR
    while True:
        client = HolderClient.connect(run_dir, uri, log)
        if client is not None:
            return client
        said = _start(uri, run_dir, log, until)
        client = HolderClient.connect(run_dir, uri, log)
        if client is not None:
            return client
        if time.monotonic() > until or said not in ("ready", "busy"):
            raise HolderError(f"the migration agent does not start: {said}")
        time.sleep(0.05)


def _start(uri: str, run_dir: str, log: str, until: float) -> str:
    """Start a detached holder. Its first word, or the end of what it said instead."""
    code = _BOOT.format(
        path=[entry or os.getcwd() for entry in sys.path], package=__package__, uri=uri, run_dir=run_dir, log=log
    )
    # run_command waits for the end of what it starts; the holder has to outlive the module.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        start_new_session=True,
        close_fds=True,
    )
    text = b""
    stdout = process.stdout
    if stdout is None:
        raise HolderError("no pipe to the new migration agent")
    with stdout:
        while not text.startswith((b"ready\n", b"busy\n")):
            left = until - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                break
            data = os.read(stdout.fileno(), 65536)
            if not data:
                break
            text += data
    words = text.decode(errors="replace").strip()
    return words.splitlines()[-1] if words else "it said nothing"
