"""Keep a list of objects up to date by a watch on a thread.

A watch that drops, expires or fails is everyday: it goes on from the last version, or lists
again. What must be believed is listed anew (`refresh`), not taken from here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .client import Client, ends_first_list
from .errors import AccessDenied, KubeError

Obj = dict[str, Any]


# A server that takes the request and then does not report everything is listed.
_FIRST_LIST_TIMEOUT = 10.0


class Cache:
    """One list. `changed` is called after each change, on the watching thread."""

    def __init__(
        self,
        client: Client,
        path: str,
        changed: Callable[[], None],
        labels: str = "",
        fields: str = "",
        watch_seconds: int = 60,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._path = path
        self._changed = changed
        self._labels = labels
        self._fields = fields
        self._seconds = watch_seconds
        self._sleep = sleep
        self._items: dict[str, Obj] = {}
        self._lock = threading.Lock()
        self._version = ""  # none: what is known is not whole yet
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._first_list = threading.Event()  # the first list is whole, or not to be had by a watch
        self.failure: KubeError | None = None

    @property
    def started(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """List and watch, in one request where the server does that. Raises KubeError."""
        if not self._client.streams_lists:
            self.refresh()
            self._run()
            return
        self._run()
        self._first_list.wait(_FIRST_LIST_TIMEOUT)
        if self.failure is not None:
            raise self.failure
        if not self._version:
            self.refresh()

    def _run(self) -> None:
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The thread ends with its watch; nobody waits for it."""
        self._stopped.set()

    def refresh(self, anew: bool = False) -> None:
        """List now. `anew`: the server does not know what was watched so far. Raises KubeError."""
        items, version = self._client.list(self._path, self._labels, self._fields)
        with self._lock:
            if not anew and _number(self._version) > _number(version):
                return  # the watch has gone on since, and tells nothing twice
            self._items = {item["metadata"]["uid"]: item for item in items}
            self._version = version

    def replace(self, obj: Obj) -> None:
        """The one object of this list, as it was just read."""
        with self._lock:
            self._items = {obj["metadata"]["uid"]: obj}

    def items(self) -> list[Obj]:
        """The objects as last listed or watched. Raises KubeError when the watch has ended for good."""
        if self.failure is not None:
            raise self.failure
        with self._lock:
            return list(self._items.values())

    def put(self, obj: Obj) -> None:
        """Take over an object as the answer to a write of ours has it, unless the watch was quicker."""
        uid = obj["metadata"]["uid"]
        with self._lock:
            known = self._items.get(uid)
            if known is not None and _version(known) < _version(obj):
                self._items[uid] = obj

    def _follow(self) -> None:
        pause = 0.2
        while not self._stopped.is_set():
            self._forget()
            try:
                for event in self._client.watch(self._path, self._version, self._seconds, self._labels, self._fields):
                    pause = 0.2
                    if self._stopped.is_set():
                        return
                    self._take(event)
            except AccessDenied as exc:
                self.failure = exc
                self._first_list.set()
                self._changed()
                return
            except KubeError as exc:
                if self._stopped.is_set():
                    return
                if not self._version:
                    self._list_instead(exc)
                    continue
                self._sleep(pause)
                pause = min(pause * 2, 5.0)
                if exc.code in (410, 400):
                    self._again()

    def _list_instead(self, exc: KubeError) -> None:
        """List and watch in one did not work: `start`, which waits for it, lists."""
        self._client.streams_lists &= exc.code not in (400, 422)
        self._first_list.set()
        while not self._version and not self._stopped.is_set():
            self._sleep(0.05)

    def _forget(self) -> None:
        """Forget what a watch has reported that broke off before its first list was complete."""
        with self._lock:
            if not self._version:
                self._items = {}

    def _again(self) -> None:
        try:
            self.refresh(anew=True)
        except KubeError as exc:
            if isinstance(exc, AccessDenied):
                self.failure = exc
        self._changed()

    def _take(self, event: Obj) -> None:
        obj, uid = event["object"], event["object"]["metadata"].get("uid", "")
        with self._lock:
            first = not self._version
            if not first or ends_first_list(event):
                self._version = obj["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK":
                if self._version:
                    self._first_list.set()
                return
            known = self._items.get(uid)
            if known is not None and _version(known) > _version(obj):
                return  # listed since
            if event["type"] == "DELETED":
                self._items.pop(uid, None)
            else:
                self._items[uid] = obj
        if not first:
            self._changed()


def _version(obj: Obj) -> int:
    return _number(obj["metadata"].get("resourceVersion", "0"))


def _number(text: str) -> int:
    """A resourceVersion. Kubernetes lets resourceVersions of one resource be compared as numbers since 1.35; all
    known servers gave numbers before. What is no number counts as old."""
    return int(text) if text.isdigit() else 0
