"""Stands before libvirt's binding: writes down what the real one answers, or answers with that.

On PYTHONPATH of a module. VIRTOPS_RECORDING names the file. Where it is there already it is played, and
no libvirt is needed; else it is written when the process ends. A call is known by the object that it
was made on, its name and its arguments. Answers that changed are played in their order, and the last
one again and again. What was never asked is an AssertionError: then `make record` is due.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_FILE = Path(os.environ["VIRTOPS_RECORDING"])
_PLAYS = _FILE.exists()
_LOCK = threading.Lock()


def real(name: str) -> Any:
    """A module of the real binding, which stands behind this folder on the path."""
    spec = PathFinder.find_spec(name, [path for path in sys.path if Path(path or ".").resolve() != _HERE])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no {name} to record")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Played(Exception):
    """libvirtError, as it was written down."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self._code = code

    def get_error_code(self) -> int:
        return self._code


_written: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8")) if _PLAYS else {}
_calls: dict[str, list[Any]] = _written.get("calls", {})
_constants: dict[str, int] = _written.get("constants", {})
_real = None if _PLAYS else real("libvirt")
libvirtError: Any = _Played if _real is None else _real.libvirtError  # noqa: N816 - libvirt's name


def _write() -> None:
    with _LOCK:
        _FILE.write_text(json.dumps({"constants": _constants, "calls": _calls}), encoding="utf-8")


if not _PLAYS:
    atexit.register(_write)


class Recorded:
    """An object of the binding: its kind, host and name, and, when it is written down, the real one."""

    def __init__(self, key: str, where: str, behind: Any = None) -> None:
        self._key = key
        self._where = where
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # An older binding does not have all methods: that is an AttributeError here, too.
        call = None if self._behind is None else getattr(self._behind, name)
        return lambda *given: ask(f"{self._key}.{name}", self._where, call, given)


def ask(what: str, where: str, call: Callable[..., Any] | None, given: tuple[Any, ...]) -> Any:
    """The answer to a call: from the file, or the real one, which is written down. `where`: its host."""
    streams = [one for one in given if isinstance(one, Recorded) and one._key.startswith("virStream")]
    key = f"{what}({json.dumps([_put(one) for one in given if one not in streams])[1:-1]})"
    for stream in streams:
        stream._key = f"virStream of {key}"  # it is known by what comes through it
    if call is None:
        return _get(_next(key), where)
    try:
        answer = call(*(one._behind if isinstance(one, Recorded) else one for one in given))
    except libvirtError as exc:
        _note(key, {"error": [exc.get_error_code(), str(exc)]})
        raise
    put = _put(answer, where)
    _note(key, put)
    return _get(put, where, answer)


def _note(key: str, answer: Any) -> None:
    with _LOCK:
        answers = _calls.setdefault(key, [])
        if not answers or answers[-1] != answer:
            answers.append(answer)


def _next(key: str) -> Any:
    with _LOCK:
        answers = _calls.get(key)
        assert answers, f"libvirt was never asked {key}: make record"
        answer = answers[0] if len(answers) == 1 else answers.pop(0)
    if isinstance(answer, dict) and "error" in answer:
        raise _Played(*answer["error"])
    return answer


def _put(value: Any, where: str = "") -> Any:
    """As JSON. What JSON has not is an object that names what it is."""
    if isinstance(value, Recorded):
        return {"object": value._key}
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode()}
    if isinstance(value, dict):
        return {"pairs": [[_put(key), _put(one, where)] for key, one in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_put(one, where) for one in value]}
    if isinstance(value, list):
        return [_put(one, where) for one in value]
    if type(value).__name__.startswith("vir"):
        return {"object": _name(value, where)}
    return value


def _get(put: Any, where: str, answer: Any = None) -> Any:
    """The value again. `answer`: the real one, whose objects stand behind those that are given."""
    if isinstance(put, list):
        return [_get(one, where, answer[at] if answer else None) for at, one in enumerate(put)]
    if not isinstance(put, dict):
        return put
    ((kind, inner),) = put.items()
    if kind == "object":
        return Recorded(inner, where, answer)
    if kind == "bytes":
        return b64decode(inner)
    if kind == "tuple":
        return tuple(_get(inner, where, answer))
    reals = list(answer.values()) if answer else []
    return {_get(key, where): _get(one, where, reals[at] if reals else None) for at, (key, one) in enumerate(inner)}


def _name(thing: Any, where: str) -> str:
    kind = type(thing).__name__
    if kind in {"virConnect", "virStream"}:
        return f"{kind} {where}"
    if kind in {"virDomain", "virSecret"}:
        return f"{kind} {where} {thing.UUIDString()}"
    return f"{kind} {where} {thing.getName() if hasattr(thing, 'getName') else thing.name()}"


def open(uri: str) -> Any:  # noqa: A001 - libvirt's name
    return ask("open", uri, None if _real is None else _real.open, (uri,))


def registerErrorHandler(_handler: Any, _context: Any) -> None:  # noqa: N802 - libvirt's name
    """Nothing is printed here."""


def virEventRegisterDefaultImpl() -> None:  # noqa: N802 - libvirt's name
    if _real is not None:
        _real.virEventRegisterDefaultImpl()


def virEventRunDefaultImpl() -> None:  # noqa: N802 - libvirt's name
    if _real is None:
        threading.Event().wait()  # nothing ever happens in a recording
    else:
        _real.virEventRunDefaultImpl()


def __getattr__(name: str) -> Any:
    """libvirt's constants."""
    if _real is not None and not name.startswith("VIR_"):
        return getattr(_real, name)  # classes, for libvirt_qemu
    if not name.startswith("VIR_"):
        raise AttributeError(name)
    if _real is not None:
        _constants[name] = getattr(_real, name)
    assert name in _constants, f"libvirt was never asked for {name}: make record"
    return _constants[name]
