"""A list kept by a watch, where the watch tells the list first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cache import Cache
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import AccessDenied, KubeError


def event(kind: str, name: str, version: int, **notes: str) -> dict[str, Any]:
    meta = {"uid": name, "name": name, "resourceVersion": str(version), "annotations": notes}
    return {"type": kind, "object": {"metadata": meta}}


def the_end(version: int) -> dict[str, Any]:
    return event("BOOKMARK", "", version, **{"k8s.io/initial-events-end": "true"})


SILENCE = object()


def fail(error: Exception) -> None:
    raise error


class Server:
    """Answers each watch with the next script; an error in it is raised."""

    def __init__(self, *scripts: list[Any]) -> None:
        self.scripts = list(scripts)
        self.asked: list[str] = []
        self.lists = 0
        self.streams_lists = True

    def watch(self, _path: str, version: str, *_more: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(version)
        script = self.scripts.pop(0) if self.scripts else [SILENCE]
        for told in script:
            if isinstance(told, Exception):
                fail(told)
            if told is SILENCE:
                time.sleep(60)
            yield told

    def list(self, *_what: Any) -> tuple[list[dict[str, Any]], str]:
        self.lists += 1
        return [event("", "listed", 7)["object"]], "9"


def begin(server: Server) -> Cache:
    cache = Cache(server, "/api/v1/pods", lambda: None, sleep=lambda _seconds: time.sleep(0.001))
    cache.start()
    return cache


def names(cache: Cache) -> list[str]:
    return sorted(item["metadata"]["name"] for item in cache.items())


def test_one_request_lists_and_watches() -> None:
    server = Server([event("ADDED", "a", 3), event("ADDED", "b", 2), the_end(5)])
    cache = begin(server)
    assert (names(cache), server.lists, server.asked[0]) == (["a", "b"], 0, "")
    cache.stop()


def test_what_broke_off_before_its_end_is_not_believed() -> None:
    """Half of a list would be an empty node."""
    server = Server([event("ADDED", "a", 3)], [event("ADDED", "b", 4), the_end(5)])
    cache = begin(server)
    assert (names(cache), server.asked[:2], server.lists) == (["b"], ["", ""], 0)
    cache.stop()


@pytest.mark.parametrize(("code", "again"), [(422, False), (500, True), (0, True)])
def test_a_server_that_cannot_is_listed(code: int, again: bool) -> None:
    server = Server([event("ADDED", "a", 3), KubeError(code, "no", "watch")])
    cache = begin(server)
    assert (names(cache), server.lists, server.streams_lists) == (["listed"], 1, again)
    end = time.monotonic() + 60
    while len(server.asked) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert server.asked == ["", "9"]
    cache.stop()


def test_a_missing_right_is_said_at_once() -> None:
    with pytest.raises(AccessDenied):
        begin(Server([AccessDenied(403, "forbidden", "watch", "pods")]))


def test_a_list_that_is_older_than_what_was_watched_meanwhile_changes_nothing() -> None:
    server = Server([event("ADDED", "a", 3), event("ADDED", "gone", 4), the_end(5)])
    cache = begin(server)
    taken = [event("DELETED", "gone", 6), event("ADDED", "new", 7)]

    def listed(*_what: Any) -> tuple[list[dict[str, Any]], str]:
        for told in taken:
            cache._take(told)
        return [event("", "a", 3)["object"], event("", "gone", 4)["object"]], "5"

    server.list = listed  # type: ignore[method-assign]
    cache.refresh()
    assert names(cache) == ["a", "new"]
    cache.stop()
