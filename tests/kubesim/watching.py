"""Watches: what changed since a version, what changes, bookmarks; and a list told as a watch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .answers import ApiError, expired, status
from .kinds import Kind
from .selectors import Test
from .store import Change, Obj, Store

_TRUE = ("true", "1")


@dataclass(frozen=True)
class Asked:
    """What is to be watched."""

    kind: Kind
    namespace: str
    test: Test
    query: Mapping[str, str]


class Stream(web.StreamResponse):
    """The answer to a watch; it is logged when it begins."""


def check_initial(query: Mapping[str, str], enabled: bool) -> None:
    """Raises ApiError 422, in the words of the API server's validation of list options."""
    if query.get("resourceVersionMatch") != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _forbidden("resourceVersionMatch", text)
    if not enabled:
        text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is"
        raise _forbidden("sendInitialEvents", f"{text} enabled")


def _forbidden(field: str, text: str) -> ApiError:
    causes = [{"reason": "FieldValueForbidden", "message": f"Forbidden: {text}", "field": field}]
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": causes}
    whole = f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {text}'
    return status(422, whole, "Invalid", details)


class Watch:
    """One watch, to its end."""

    def __init__(self, store: Store, asked: Asked, ending: asyncio.Event, drop: float | None) -> None:
        """`drop`: it ends after so many seconds without a bookmark, as if the network broke."""
        self._store = store
        self._asked = asked
        self._ending = ending
        self._drop = drop
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._response = Stream(headers={"Content-Type": "application/json"})

    async def answer(self, request: web.Request, begun: Callable[[], None]) -> Stream:
        query, store = self._asked.query, self._store
        since = int(query.get("resourceVersion") or 0)
        await self._response.prepare(request)
        begun()
        if since and since < store.oldest:
            await self._send("ERROR", expired(since, store.oldest).body)
            return self._response
        store.listeners.append(self._changes.put_nowait)
        initial = query.get("sendInitialEvents") in _TRUE
        # What is there, and what changed before it was listened: taken at one moment.
        backlog = store.since(since) if since and not initial else []
        there = store.all(self._asked.kind, self._asked.namespace) if initial or not since else ()
        items = list(there)
        version = store.rv
        try:
            await self._all(items, backlog, version if initial else 0)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left
        finally:
            store.listeners.remove(self._changes.put_nowait)
        return self._response

    async def _all(self, items: list[Obj], backlog: list[Change], version: int) -> None:
        """`version`: of the list that is told first; 0: none was asked for."""
        query = self._asked.query
        bookmarks = query.get("allowWatchBookmarks") in _TRUE
        for obj in items:
            if self._asked.test(obj):
                await self._send("ADDED", obj)
        if version and bookmarks:
            await self._bookmark(version, **{"k8s.io/initial-events-end": "true"})
        for change in backlog:
            await self._tell(change)
        seconds = float(query.get("timeoutSeconds") or 1800)
        await self._follow(seconds if self._drop is None else min(seconds, self._drop))
        if bookmarks and self._drop is None:
            await self._bookmark(self._store.rv)

    async def _follow(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._ending.is_set():
            left = until - time.monotonic()
            if left <= 0:
                return
            try:
                change = await asyncio.wait_for(self._changes.get(), min(left, 0.5))
            except TimeoutError:
                request = self._response._req
                transport = request.transport if request else None
                if transport is None or transport.is_closing():
                    return
                continue
            await self._tell(change)

    async def _tell(self, change: Change) -> None:
        asked = self._asked
        if change.kind is not asked.kind:
            return
        if asked.namespace and change.obj["metadata"].get("namespace") != asked.namespace:
            return
        now = change.type != "DELETED" and asked.test(change.obj)
        before = change.old is not None and asked.test(change.old)
        if now:
            await self._send("MODIFIED" if before else "ADDED", change.obj)
        elif before:
            # What left the selection is shown as it was, with the version of the change.
            last = change.obj if change.type == "DELETED" else change.old or change.obj
            meta = {**last["metadata"], "resourceVersion": str(change.rv)}
            await self._send("DELETED", {**last, "metadata": meta})

    async def _bookmark(self, version: int, **notes: str) -> None:
        meta: Obj = {"resourceVersion": str(version)}
        if notes:
            meta["annotations"] = notes
        kind = self._asked.kind
        head = {"kind": kind.kind, "apiVersion": kind.api_version}
        await self._send("BOOKMARK", {**head, "metadata": meta})

    async def _send(self, kind: str, obj: Any) -> None:
        line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        await self._response.write(line)
