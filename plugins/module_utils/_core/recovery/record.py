"""The record of a host that died: when, what proves that it is off, and where each of its VMs was started. Pure.

It is kept on peers of that host, in generations, and most of them have to take each one. It is written before each
start. So a VM is bound to one target, whoever carries the recovery on; and the host, when it comes back, can ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

from ..model.policy import PolicyError
from ..model.record import RecordError
from .proof import Proof
from .told import in_status

SCHEMA = 1


class Step(str, Enum):
    """How far a VM is. STARTING: it may run there from now on."""

    STARTING = "starting"
    RUNS = "runs"
    FAILED = "failed"  # it was not started there, and nothing of it is left there


@dataclass
class Taken:
    """One VM that was taken over. `autostart`: as its host had it. `tried`: targets that could not start it."""

    uuid: str
    name: str
    target: str
    step: Step
    at: str
    autostart: bool = False
    message: str = ""
    tried: list[str] = field(default_factory=list)


@dataclass
class Recovery:
    """`found_dead`: UTC; `how`: what was seen then. `boot_id`: the host's before it died."""

    host: str
    run: str = ""
    requester: str = ""
    reason: str = ""
    found_dead: str = ""
    how: str = ""
    proof: Proof | None = None
    vms: dict[str, Taken] = field(default_factory=dict)
    boot_id: str = ""

    def to_json(self) -> str:
        raw = {
            **{key: getattr(self, key) for key in ("host", "run", "requester", "reason", "found_dead", "how")},
            "boot_id": self.boot_id,
            "schema": SCHEMA,
            "proof": self.proof.to_dict() if self.proof else None,
            "vms": [{**asdict(vm), "step": vm.step.value} for vm in self.vms.values()],
        }
        return json.dumps(raw)

    @classmethod
    def from_json(cls, text: str) -> Recovery:
        """Raises RecordError."""
        try:
            raw: Mapping[str, Any] = json.loads(text)
            if raw["schema"] != SCHEMA:
                raise RecordError(
                    f"the record of a recovery has schema {raw['schema']}, and this version knows {SCHEMA}"
                )
            vms = [Taken(**{**vm, "step": Step(vm["step"])}) for vm in raw["vms"]]
            proof = Proof.from_dict(raw["proof"]) if raw["proof"] else None
            texts = {key: str(raw[key]) for key in ("host", "run", "requester", "reason", "found_dead", "how")}
            boot = str(raw.get("boot_id") or "")
            return cls(**texts, proof=proof, vms={vm.uuid: vm for vm in vms}, boot_id=boot)
        except (ValueError, KeyError, TypeError, AttributeError, PolicyError) as exc:
            raise RecordError(f"the record of a recovery cannot be read: {exc!r}") from exc

    def told(self) -> str:
        """The sentence on this recovery for the playbook status; empty: it is over."""
        vms = [vm for vm in self.vms.values() if vm.step is not Step.FAILED]
        return in_status(self.host, self.found_dead, self.proof, len(vms))

    def taken(self, uuid: str) -> Taken | None:
        """Where the VM may run by this recovery; None: nowhere."""
        found = self.vms.get(uuid)
        return None if found is None or found.step is Step.FAILED else found


def unproven(known: Recovery) -> Recovery:
    """The host was seen alive: what proved that it is off, or would have, proves nothing any more."""
    return replace(known, found_dead="", proof=None)


def markers(peers: int) -> tuple[int, int]:
    """(how many peers have to take a record, how many have to answer a host that comes back): each that asks so many
    meets one that has it."""
    write = peers // 2 + 1
    return write, peers - write + 1
