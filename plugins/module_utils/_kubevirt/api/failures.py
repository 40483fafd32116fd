"""The exceptions that every KubeVirt module reports as its one clear error."""

from __future__ import annotations

from ..._core.model.policy import PolicyError
from ..._core.model.record import RecordError, Superseded
from ..._core.roll.owner import RollRefused, RollTakenOver
from .auth import ConfigError
from .errors import KubeError, KubernetesMissing, LockHeld, NodeUnknown


class RunsTheMaintenance(Exception):
    """The node carries the very pod that this runs in."""


class VMNotHere(Exception):
    """There is no such VM, or it does not run."""


class MigrationRefused(Exception):
    """The request cannot be met. Raised before anything is touched."""


FAILURES: tuple[type[Exception], ...] = (
    *(PolicyError, RecordError, Superseded),
    *(RollRefused, RollTakenOver),
    *(KubeError, KubernetesMissing, ConfigError, NodeUnknown, LockHeld),
    *(RunsTheMaintenance, VMNotHere, MigrationRefused),
)
