"""The objects, their versions, and what happened to them of late."""

from __future__ import annotations

import copy
import secrets
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .answers import conflict, exists, not_found, terminating
from .clock import Clock
from .kinds import NAMESPACES, Kind

Obj = dict[str, Any]
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Change:
    """One change. `old` is None for what is new; `obj` of a deletion is its last state."""

    rv: int
    type: str  # ADDED, MODIFIED, DELETED
    kind: Kind
    obj: Obj
    old: Obj | None


def random_name(length: int = 5) -> str:
    return "".join(secrets.choice(_LETTERS) for _letter in range(length))


class Store:
    """All in memory. Objects given out must not be changed by those who get them."""

    def __init__(self, clock: Clock, history: int = 20000) -> None:
        self.clock = clock
        self.rv = 1000
        self._objects: dict[Kind, dict[tuple[str, str], Obj]] = {}
        self._history: deque[Change] = deque(maxlen=history)
        self.oldest = self.rv
        self.listeners: list[Callable[[Change], None]] = []

    # Reading

    def get(self, kind: Kind, namespace: str, name: str) -> Obj:
        """Raises ApiError 404."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise not_found(kind, name)
        return found

    def find(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        return self._objects.get(kind, {}).get((namespace, name))

    def is_ending(self, namespace: str) -> bool:
        """Is this namespace being deleted?"""
        found = self.find(NAMESPACES, "", namespace)
        return found is not None and "deletionTimestamp" in found["metadata"]

    def all(self, kind: Kind, namespace: str = "") -> Iterator[Obj]:
        for (space, _name), obj in sorted(self._objects.get(kind, {}).items()):
            if namespace in ("", space):
                yield obj

    def since(self, rv: int) -> list[Change]:
        return [change for change in self._history if change.rv > rv]

    def compact(self) -> None:
        """Forget the history: watches from before get 410."""
        self._history.clear()
        self.oldest = self.rv

    # Writing

    def create(self, kind: Kind, obj: Obj, dry: bool = False) -> Obj:
        """Raises ApiError 409; 403 in a namespace that is being deleted."""
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + random_name()
        key = (meta.get("namespace", "") if kind.namespaced else "", meta["name"])
        if key in self._objects.get(kind, {}):
            raise exists(kind, meta["name"])
        if self.is_ending(key[0]):
            raise terminating(kind, meta["name"], key[0])
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=self.clock.stamp())
        meta.setdefault("generation", 1)
        if dry:
            return obj
        self._put(kind, key, obj, None)
        return obj

    def change(self, kind: Kind, namespace: str, name: str, edit: Callable[[Obj], None]) -> Obj:
        """Edit a copy of the object and store it. Nothing happens if nothing changed."""
        old = self.get(kind, namespace, name)
        new = copy.deepcopy(old)
        edit(new)
        return self.replace(kind, old, new)

    def replace(self, kind: Kind, old: Obj, new: Obj) -> Obj:
        """Raises ApiError 409 when `new` names another version than the one stored."""
        meta = old["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        current = self._objects.get(kind, {}).get(key)
        if current is None:
            raise not_found(kind, meta["name"])
        wanted = new["metadata"].get("resourceVersion")
        if wanted not in (None, "", current["metadata"]["resourceVersion"]):
            raise conflict(kind, meta["name"])
        new["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        if new == current:
            return current
        if new.get("spec") != current.get("spec"):
            new["metadata"]["generation"] = current["metadata"].get("generation", 1) + 1
        ending = new["metadata"].get("deletionTimestamp") and kind.plural != "pods"
        if ending and not new["metadata"].get("finalizers"):
            self._remove(kind, key, new)
            return new
        self._put(kind, key, new, current)
        return new

    def delete(self, kind: Kind, namespace: str, name: str) -> tuple[Obj, bool]:
        """(the object, gone?). With finalizers, and pods on a node, it is only marked."""
        old = self.get(kind, namespace, name)
        if old["metadata"].get("finalizers"):
            if not old["metadata"].get("deletionTimestamp"):
                stamp = self.clock.stamp()

                def mark(obj: Obj) -> None:
                    obj["metadata"].update(deletionTimestamp=stamp, deletionGracePeriodSeconds=0)

                old = self.change(kind, namespace, name, mark)
            return old, False
        self._remove(kind, (old["metadata"].get("namespace", ""), name), old)
        return old, True

    def _put(self, kind: Kind, key: tuple[str, str], obj: Obj, old: Obj | None) -> None:
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        self._objects.setdefault(kind, {})[key] = obj
        self._tell(Change(self.rv, "MODIFIED" if old else "ADDED", kind, obj, old))

    def _remove(self, kind: Kind, key: tuple[str, str], last: Obj) -> None:
        old = self._objects[kind].pop(key)
        self.rv += 1
        obj = copy.deepcopy(last)
        obj["metadata"]["resourceVersion"] = str(self.rv)
        self._tell(Change(self.rv, "DELETED", kind, obj, old))

    def _tell(self, change: Change) -> None:
        if len(self._history) == self._history.maxlen:
            self.oldest = self._history[0].rv
        self._history.append(change)
        for listener in list(self.listeners):
            listener(change)
