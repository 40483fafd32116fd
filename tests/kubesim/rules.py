"""What the API server refuses by rules that no schema has, in its words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .kinds import Kind
from .schema import Cause

Obj = dict[str, Any]
_DNS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_KEY})?"
_MICRO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[-+]\d\d:\d\d)"
_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_DNS}')"
)
_NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_KEY}')"
)
_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    f"'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_ANNOTATIONS = 262144  # bytes, all of an object's together
MIRROR = "kubernetes.io/config.mirror"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def wrong(kind: Kind, obj: Obj) -> list[Cause]:
    """All that is wrong with it."""
    rules = _OF_KIND.get(kind.kind)
    return [*_metadata(obj.get("metadata") or {}), *(rules(obj) if rules else ())]


def changed(kind: Kind, old: Obj, new: Obj) -> list[Cause]:
    """What of a change is wrong: the mark of a static pod comes and goes with the pod."""
    was, now = ((obj["metadata"].get("annotations") or {}).get(MIRROR) for obj in (old, new))
    if kind.kind != "Pod" or was == now:
        return []
    verb = "add" if was is None else "remove" if now is None else "update"
    text = f"Forbidden: may not {verb} mirror pod annotation"
    return [Cause("FieldValueForbidden", f"metadata.annotations[{MIRROR}]", text)]


def not_decoded(kind: Kind, obj: Obj) -> str:
    """Why a time cannot be read; empty: it can."""
    if kind.kind == "Lease":
        for name in ("acquireTime", "renewTime"):
            text = (obj.get("spec") or {}).get(name)
            if text and not re.fullmatch(_MICRO, text):
                left = re.sub(r"^.*T\d\d:\d\d:\d\d", "", text)
                return (
                    f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{left}" as ".000000"'
                )
    return ""


def _invalid(path: str, value: Any, text: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {json.dumps(value)}: {text}")


def _required(path: str) -> Cause:
    return Cause("FieldValueRequired", path, "Required value")


def _metadata(meta: Obj) -> Iterator[Cause]:
    name = meta.get("name") or ""
    if not name and meta.get("generateName"):
        name = meta["generateName"] + "x"
    if not name:
        text = "Required value: name or generateName is required"
        yield Cause("FieldValueRequired", "metadata.name", text)
    elif not re.fullmatch(_DNS, name):
        yield _invalid("metadata.name", name, _SUBDOMAIN)
    elif len(name) > 253:
        yield _invalid("metadata.name", name, "must be no more than 253 bytes")
    for key, value in (meta.get("labels") or {}).items():
        yield from _key("metadata.labels", key)
        yield from _label("metadata.labels", value)
    notes = meta.get("annotations") or {}
    for key in notes:
        yield from _key("metadata.annotations", key.lower())
    if sum(len(k.encode()) + len(v.encode()) for k, v in notes.items()) > _ANNOTATIONS:
        text = f"Too long: may not be more than {_ANNOTATIONS} bytes"
        yield Cause("FieldValueTooLong", "metadata.annotations", text)
    for owner in meta.get("ownerReferences") or []:
        yield from _owner(owner)
    if sum(owner.get("controller") is True for owner in meta.get("ownerReferences") or []) > 1:
        yield _invalid("metadata.ownerReferences", "", "Only one reference can have Controller set")


def _owner(owner: Obj) -> Iterator[Cause]:
    for name, text in (
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ):
        if not owner.get(name):
            yield _invalid(f"metadata.ownerReferences.{name}", "", text)


def _key(path: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and (not re.fullmatch(_DNS, prefix) or len(prefix) > 253):
        yield _invalid(path, key, f"prefix part {_SUBDOMAIN}")
    if not re.fullmatch(_KEY, name):
        yield _invalid(path, key, _NAME_PART)
    elif len(name) > 63:
        yield _invalid(path, key, "name part must be no more than 63 bytes")


def _label(path: str, value: str) -> Iterator[Cause]:
    if len(value) > 63:
        yield _invalid(path, value, "must be no more than 63 bytes")
    elif not re.fullmatch(_VALUE, value):
        yield _invalid(path, value, _LABEL)


def _pod_spec(spec: Obj, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield _required(f"{path}.containers")
    for i, container in enumerate(spec.get("containers") or []):
        for name in ("name", "image"):
            if not container.get(name):
                yield _required(f"{path}.containers[{i}].{name}")


def _pod(pod: Obj) -> Iterator[Cause]:
    mark = (pod["metadata"].get("annotations") or {}).get(MIRROR)
    if mark and not (pod.get("spec") or {}).get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield _invalid(f"metadata.annotations[{MIRROR}]", mark, text)
    yield from _pod_spec(pod.get("spec") or {}, "spec")


def _daemon_set(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    template, selector = spec.get("template") or {}, spec.get("selector") or {}
    labels = (template.get("metadata") or {}).get("labels")
    wanted = selector.get("matchLabels") or {}
    if not selector:
        yield _required("spec.selector")
    elif not wanted.items() <= (labels or {}).items():
        text = "`selector` does not match template `labels`"
        yield _invalid("spec.template.metadata.labels", labels, text)
    yield from _pod_spec(template.get("spec") or {}, "spec.template.spec")


def _claim(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    if not spec.get("accessModes"):
        text = "Required value: at least 1 access mode is required"
        yield Cause("FieldValueRequired", "spec.accessModes", text)
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        yield _required("spec.resources[storage]")


def _volume(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    for name in ("accessModes", "capacity"):
        if not spec.get(name):
            yield _required(f"spec.{name}")


def _budget(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": spec.get("selector"),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        value = json.dumps(shown, separators=(",", ":"))
        text = f"Invalid value: {value}: minAvailable and maxUnavailable cannot be both set"
        yield Cause("FieldValueInvalid", "spec", text)
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if isinstance(value, int) and value < 0:
            yield _invalid(f"spec.{name}", value, "must be greater than or equal to 0")
        elif isinstance(value, str) and not re.fullmatch(r"\d+%", value):
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            yield _invalid(f"spec.{name}", value, text)


def _node(obj: Obj) -> Iterator[Cause]:
    seen = set()
    for i, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        where, effect = f"metadata.taints[{i}]", taint.get("effect")
        yield from _key(f"{where}.key", taint.get("key") or "")
        if effect not in EFFECTS:
            wanted = ", ".join(f'"{one}"' for one in EFFECTS)
            text = f'Unsupported value: "{effect}": supported values: {wanted}'
            yield Cause("FieldValueNotSupported", f"{where}.effect", text)
        same = (taint.get("key"), effect)
        if same in seen:
            text = f"Duplicate value: {json.dumps(taint)}"
            yield Cause("FieldValueDuplicate", where, text)
        seen.add(same)


def _lease(obj: Obj) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield _invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield _invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


def _event(obj: Obj) -> Iterator[Cause]:
    """An Event of core/v1: about an object of its namespace, or of none in `default`."""
    about = (obj.get("involvedObject") or {}).get("namespace")
    if about and about != obj["metadata"].get("namespace"):
        yield _invalid("involvedObject.namespace", about, "does not match event.namespace")


_OF_KIND: dict[str, Callable[[Obj], Iterator[Cause]]] = {
    "Pod": _pod,
    "DaemonSet": _daemon_set,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "PodDisruptionBudget": _budget,
    "Node": _node,
    "Lease": _lease,
    "Event": _event,
}
