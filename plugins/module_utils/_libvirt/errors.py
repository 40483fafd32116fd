"""Report what ended a run in one form for all modules: a sentence, and the class of the error."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager

from .._core.model.policy import PolicyError
from .._core.model.record import RecordError, Superseded
from .._core.roll.owner import RollRefused, RollTakenOver, RollUnreadable
from .._playbook.lives import end_cleanly
from .host.connection import LibvirtProblem, hint_for
from .host.errors import HolderError, LockHeld, PeerUnreachable, VMNotHere
from .store.volumes import StoreError

REPORTED = (
    *(PolicyError, RecordError, Superseded, VMNotHere, PeerUnreachable, LockHeld),
    *(LibvirtProblem, StoreError, HolderError),
    *(RollRefused, RollTakenOver, RollUnreadable),
)


class Failed(Exception):
    """`error`: the name of the class of what was raised."""

    def __init__(self, text: str, error: str) -> None:
        super().__init__(text)
        self.error = error


@contextmanager
def as_failed() -> Iterator[None]:
    """Turn errors that somebody can mend into Failed, for a `with` block around a module's work. A defect of ours stays
    what it is."""
    end_cleanly()
    try:
        yield
    except PermissionError as exc:
        text = f"{exc}: the module needs root on the host (become), or the setup for another user in docs/security.md"
        raise Failed(text, type(exc).__name__) from exc
    except (*REPORTED, OSError, ValueError, ET.ParseError) as exc:
        raise Failed(str(exc), type(exc).__name__) from exc
    except Exception as exc:
        if not hasattr(exc, "get_error_code"):  # libvirtError, whose binding may be missing
            raise
        raise Failed(f"{exc}. {hint_for(str(exc))}".rstrip(), type(exc).__name__) from exc
