"""Where a VM may be: node selector, affinity, taints and tolerations, with Kubernetes' words and
meaning. Plain data and pure functions. On KubeVirt the API's own objects are matched instead
(`_kubevirt/objects`), for they say more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Effect(str, Enum):
    """The effect of a taint on a VM that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Operator(str, Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: Effect = Effect.NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect.value}" if self.value else self._bare()

    def _bare(self) -> str:
        return f"{self.key}:{self.effect.value}"


@dataclass(frozen=True)
class Toleration:
    """`key` empty: every taint. `value` None: whatever its value. `effect` None: every effect."""

    key: str = ""
    value: str | None = None
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.key and self.key != taint.key:
            return False
        if self.value is not None and self.value != taint.value:
            return False
        return self.effect is None or self.effect is taint.effect


@dataclass(frozen=True)
class Requirement:
    """One expression of a node affinity."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator is Operator.EXISTS:
            return self.key in labels
        if self.operator is Operator.DOES_NOT_EXIST:
            return self.key not in labels
        inside = labels.get(self.key) in self.values
        return inside if self.operator is Operator.IN else not inside

    def __str__(self) -> str:
        values = f" ({', '.join(self.values)})" if self.values else ""
        return f"{self.key} {self.operator.value}{values}"


@dataclass(frozen=True)
class Constraints:
    """The requirements of a VM on its node.

    selector, affinity: all must hold. near: a group beside whose VMs it is placed if it can be.
    """

    selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[Requirement, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    near: str = ""


NO_CONSTRAINTS = Constraints()


def unsatisfied(needs: Constraints, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> str:
    """Why a node with these labels and taints cannot take the VM; empty: it can."""
    for key, value in needs.selector.items():
        if labels.get(key) != value:
            return f"does not have the label {key}={value}"
    for requirement in needs.affinity:
        if not requirement.matches(labels):
            return f"does not meet {requirement}"
    for taint in taints:
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not _tolerated(needs, taint):
            return f"has the taint {taint}"
    return ""


def untolerated_preferences(needs: Constraints, taints: tuple[Taint, ...]) -> int:
    """How many of the node's PreferNoSchedule taints the VM does not tolerate."""
    soft = (t for t in taints if t.effect is Effect.PREFER_NO_SCHEDULE)
    return sum(not _tolerated(needs, taint) for taint in soft)


def _tolerated(needs: Constraints, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in needs.tolerations)
