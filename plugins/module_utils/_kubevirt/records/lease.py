"""One slice at a time works on a node: a Lease.

It is held for the length of a slice and given back, or kept for the next slice of the same run
until somebody says that he waits for it. A holder that died on another machine is waited for until its Lease has not
changed for its duration on our own clock: nobody's wall time is believed. So a slice that takes
longer than it should renews it in time, and stops where it could not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from ..._core.model.record import Superseded
from ..._playbook import lives
from ..api.cache import Cache
from ..api.client import Client, only
from ..api.errors import KubeError, LockHeld
from ..objects.facts import annotations, labels
from ..objects.names import LEASE, leases, one
from .lease_notes import OURS

T = TypeVar("T")
# On the Lease: who waits for it.
WANTED = "virtops.maintenance/wanted"
# On the Lease: the processes that have it, as _playbook/lives notes them.
PROCESSES = "virtops.maintenance/processes"
# On the Lease of a drain: the label by which others find it, and how many VMs have no slot yet.
DRAINS = "virtops.maintenance/drains"
WAITING = "virtops.maintenance/waiting"
# Seconds for which he goes first once it is free; after that he has gone away. He looks twice in a
# second; a busy server or machine may keep him from it for some: he would wait for one more slice.
_PRECEDENCE = 10.0
# Seconds between two looks at a Lease that another one has. If that one lives, it is given back
# soon after it was asked for.
_CHECK_EVERY = 0.5
_SOON = 0.1
_SLICE_ENDS = 3.0


def is_wanted(lease: dict[str, Any]) -> bool:
    """Does somebody wait for it?"""
    return WANTED in annotations(lease)


class Lock:
    """`holder`: names this slice. `seconds`: how long the slice may take at most.

    `drains`: the Lease is found by others that drain.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        node: str,
        holder: str,
        seconds: int,
        drains: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._path = leases(namespace)
        self.name = f"{LEASE}{one(node)}"
        # What it holds as annotations, made anew when it is taken.
        self.annotate: Callable[[dict[str, str]], dict[str, str]] = dict
        self.namespace = namespace
        self._drains = drains
        self._holder = holder
        self._seconds = seconds
        self._sleep = sleep
        self._clock = clock
        self._held: dict[str, Any] | None = None  # the Lease as our last write left it
        self._since: float | None = None  # when that was sent; None: it is not ours
        self._keeping = False
        self._stale = ""  # a version of it that is known to be an old one

    @property
    def holder(self) -> str:
        return self._holder

    def renew(self, lease: dict[str, Any]) -> bool:
        """Take over the Lease that an earlier slice of this run has left to us.

        False: it is another one by now, so someone else has been at work, or wants to be: then it
        is given back. Raises KubeError.
        """
        if not is_wanted(lease) and self._update(lease, True):
            return True
        self.release_kept(lease)
        return False

    def go_on(self) -> bool:
        """Continue with the Lease that an earlier slice of this name left, even if others wait. Raises KubeError."""
        lease = self.read()
        return lease is not None and lease["spec"].get("holderIdentity") == self._holder and self._update(lease, True)

    def release_kept(self, lease: dict[str, Any]) -> None:
        """Release the Lease that an earlier slice of this run has kept for this one, unless somebody else has it by
        now. Raises KubeError."""
        self._release(lease["spec"]["holderIdentity"])

    def watch(self, changed: Callable[[], None]) -> Cache:
        """Tells who waits for it, once it is started."""
        self._client.optional.add(self._path)  # who may not look at them goes on alone
        return Cache(self._client, self._path, changed, fields=f"metadata.name={self.name}")

    def keep(self) -> None:
        """Before each write of the slice: it is ours. Renewed when half of its time is gone.

        Raises Superseded, and KubeError when its time is over and nobody answers.
        """
        if self._since is None or self._keeping or self._gone() < self._seconds / 2:
            return
        self._keeping = True
        try:
            if not self._kept():
                raise Superseded(
                    f"Another run has taken the Lease {self.name}, or someone removed it: this "
                    f"run did not renew it within {self._seconds} s. It has stopped and undid "
                    "nothing."
                )
        except KubeError:
            if self._gone() >= self._seconds:
                raise
        finally:
            self._keeping = False

    def _gone(self) -> float:
        return self._clock() - (self._since or 0.0)

    def _kept(self) -> bool:
        """Renew the Lease; False: somebody else has taken or removed it. If only others have written to it (they wait
        for it) it is tried again. Unchanged, it is ours even if it has expired. Raises KubeError."""
        for _try in range(3):
            if self._held is None or not self._update(self._held, True, retry=False):
                lease = self._client.find(f"{self._path}/{self.name}")  # somebody waits for it?
                if lease is None or lease["spec"].get("holderIdentity") != self._holder:
                    return False
                self._held = lease
            elif self._gone() < self._seconds:
                return True
        raise KubeError(0, "it could not be renewed in time", f"PUT {self.name}")

    @property
    def held(self) -> dict[str, Any]:
        """The Lease as our last write left it, for the next slice. Empty when there is none."""
        return self._held or {}

    @property
    def reported(self) -> str:
        """The number that our Lease tells other drains: VMs without a slot, as text; empty: none is told."""
        return annotations(self.held).get(WAITING, "") if self.held else ""

    def report(self, waiting: int) -> None:
        """To other drains: that many VMs have no slot yet. Raises KubeError, Superseded.

        Where somebody has written to the Lease meanwhile, it is not told until it was renewed.
        """
        self.keep()
        if self._since is None or self._held is None or self.reported == str(waiting):
            return
        version = self._held["metadata"]["resourceVersion"]
        if version != self._stale:
            notes = {**annotations(self._held), WAITING: str(waiting)}
            meta = {**self._held["metadata"], "annotations": notes}
            if not self._update({**self._held, "metadata": meta}, True, retry=False):
                self._stale = version

    def take(
        self,
        patience: float,
        read: Callable[[], T],
        before: tuple[str, float] = ("", 0.0),
        left: frozenset[str] = frozenset(),
    ) -> T:
        """Take the Lease, and give what `read` gave, which no other run has changed since.

        `before`: a version of it, and since when an earlier slice saw it not to change, by the clock that all processes
        of the machine share; the time until this slice counts as well. After a reboot nothing does. `left`: holders
        that are slices of this run, and have ended.

        It is called between looking at the Lease and taking it: who gets it as he saw it knows
        that no one worked in between. Raises LockHeld after `patience` seconds, KubeError, and
        what `read` raises.
        """
        until, soon = self._clock() + patience, self._clock() + _SLICE_ENDS
        seen, since = before[0], min(before[1], self._clock())
        while True:
            lease = self._client.find(f"{self._path}/{self.name}")
            if lease is None:
                found = read()
                if self._create():
                    return found
                if self._clock() >= until:
                    raise LockHeld(f"The Lease {self.name} is made and removed again all the time", (seen, since))
                self._sleep(_SOON)
                continue
            spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
            if version != seen:
                seen, since = version, self._clock()
            unchanged = self._clock() - since
            holder = spec.get("holderIdentity") or ""
            first = self._first(lease, unchanged)
            expired = unchanged > float(spec.get("leaseDurationSeconds") or 0)
            expired = expired or lives.have_ended(annotations(lease).get(PROCESSES, ""))
            if not holder or holder == self._holder or holder in left or expired:
                found = read()
                if first and self._update(lease, True):
                    return found
            elif not is_wanted(lease):
                seen = self._ask(lease) or seen
            if self._clock() >= until:
                lasts = float(spec.get("leaseDurationSeconds") or 0)
                raise LockHeld(
                    f"{holder} is working on the node right now ({self.name})",
                    (seen, since),
                    f"It waits for the Lease {self.name} of run {holder.split(' ')[0]}: until that "
                    f"run releases it, or, if it was killed, for {max(0.0, lasts - unchanged):.0f} s.",
                )
            self._sleep(_SOON if self._clock() < soon else _CHECK_EVERY)

    def _first(self, lease: dict[str, Any], unchanged: float) -> bool:
        """Is no other waiting, or none that still lives?"""
        waiting = annotations(lease).get(WANTED, "")
        ours = waiting.split(" ")[0] == self._holder.split(" ")[0]  # an earlier slice of us
        return not waiting or ours or unchanged > _PRECEDENCE

    def _ask(self, lease: dict[str, Any]) -> str:
        """Say that we wait: a run that keeps the Lease from slice to slice then gives it back.

        The version that this made, so that it is not taken for a sign of the holder's life.
        """
        notes = {**annotations(lease), WANTED: self._holder}
        body = {**lease, "metadata": {**lease["metadata"], "annotations": notes}}
        try:
            made = self._client.request("PUT", f"{self._path}/{self.name}", body)
        except KubeError:
            return ""  # it changed meanwhile: at the next look
        return str(made["metadata"]["resourceVersion"])

    def release(self) -> None:
        """Only what is ours. Failing does no harm: it expires."""
        self._since = None
        try:
            if self._held is not None and not self._update(self._held, False):
                self._release(self._holder)
        except KubeError:
            return

    def read(self) -> dict[str, Any] | None:
        """The Lease as it is; None where there is none."""
        return self._client.find(f"{self._path}/{self.name}")

    def note(self, notes: dict[str, str]) -> None:
        """Annotations besides those that stand there. Raises KubeError."""
        lease = self._held
        for _try in range(3):  # who waits for it may have written to it meanwhile
            if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self._holder:
                return
            meta = {**lease["metadata"], "annotations": {**annotations(lease), **notes}}
            if self._update({**lease, "metadata": meta}, True, retry=False):
                return
            lease = self.read()

    def remove(self) -> None:
        """The node is restored: nothing of its maintenance stays.

        Where somebody waits for it, or the right is missing, it is given back without our notes.
        """
        lease, self._since = self._held, None
        if lease is None:
            return
        meta = lease["metadata"]
        body = only(lease)
        body["preconditions"]["resourceVersion"] = meta["resourceVersion"]
        try:
            self._client.request("DELETE", f"{self._path}/{self.name}", body, retry=False)
            return
        except KubeError:
            notes = {key: text for key, text in annotations(lease).items() if key not in (*OURS, PROCESSES)}
            self._held = {**lease, "metadata": {**meta, "annotations": notes}}
        self.release()

    def _release(self, holder: str) -> None:
        """Who waits has written to it: if it still is `holder`'s, it is given back as it is now."""
        lease = self._client.find(f"{self._path}/{self.name}")
        if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == holder:
            self._update(lease, False)

    def _spec(self, held: bool) -> dict[str, Any]:
        holder = self._holder if held else ""
        return {"holderIdentity": holder, "leaseDurationSeconds": self._seconds}

    def _create(self) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "labels": self._labels({}), "annotations": self.annotate({})},
            "spec": self._spec(True),
        }
        return self._won("POST", self._path, body, True)

    def _update(self, lease: dict[str, Any], held: bool, retry: bool = True) -> bool:
        """Update the Lease with the resourceVersion that was read, so that only one of two writers wins."""
        body = {**lease, "spec": {**(lease.get("spec") or {}), **self._spec(held)}}
        before = (lease.get("spec") or {}).get("holderIdentity") or ""
        if held and before != self._holder:
            same = before.split(" ")[0] == self._holder.split(" ")[0]  # a slice of the same run
            gone = (WANTED,) if same else (WANTED, WAITING)
            notes = {key: text for key, text in annotations(lease).items() if key not in gone}
            notes = self.annotate(notes)
            marks = self._labels(labels(lease))
            body["metadata"] = {**lease["metadata"], "annotations": notes, "labels": marks}
        return self._won("PUT", f"{self._path}/{self.name}", body, held, retry)

    def _labels(self, old: dict[str, str]) -> dict[str, str]:
        kept = {key: text for key, text in old.items() if key != DRAINS}
        return {**kept, DRAINS: "true"} if self._drains else kept

    def _won(self, method: str, path: str, body: dict[str, Any], held: bool, retry: bool = True) -> bool:
        sent = self._clock()
        try:
            self._held = self._client.request(method, path, body, retry=retry)
        except KubeError as exc:
            if exc.code != 409 and (exc.code != 404 or method == "POST"):  # then the namespace is not there
                raise
            return False
        self._since = sent if held else None
        return True
