"""Options of the libvirt modules: argument specs, and the core's objects made of them."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any

from .._core.model import constraints_text
from .._core.model.addresses import one_host, passwords_in
from .._core.model.observation import EvictionStrategy, OnNotMigratable
from .._core.model.policy import OPTIONS_SPEC, Limits, PlacementPolicy, Policy, PolicyError, Profile
from .._playbook.hidden import ADDRESS, hide
from .._policy.rules import HOOKS, UNKNOWN_ANSWERS, compile_rules
from .._policy.settings import CHOICES, COMPRESSIONS, aliases_of, migration_settings
from .host.dirty_rate import LONGEST
from .observe.host import HostConfig
from .store.names import can_name_a_node

HOSTS_SPEC: dict[str, Any] = {
    "node": {"type": "str"},
    "uri": {"type": ADDRESS, "default": "qemu:///system"},
    "memory": {"type": "int", "default": 0},
    "peers": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "uri": {"type": ADDRESS, "required": True},
            "migrate_uri": {"type": ADDRESS, "default": ""},
            "memory": {"type": "int", "default": 0},
            "reserve": {"type": "int", "default": 0},
            "roll_rank": {"type": "int"},
            "roll_done": {"type": "bool", "default": False},
            "expects": {"type": "list", "elements": "str", "default": []},
            "labels": {"type": "dict", "default": {}},
            "taints": {"type": "list", "elements": "str", "default": []},
        },
    },
    "shared_paths": {"type": "list", "elements": "str", "default": []},
}
# Of the module's own host where it takes VMs itself, as of a peer.
TARGET_SPEC: dict[str, Any] = {name: HOSTS_SPEC["peers"]["options"][name] for name in ("reserve", "labels", "taints")}

# What a restore does with migrations that run.
ABORT_SPEC: dict[str, Any] = {"abort": {"type": "str", "choices": ["now", "finish"], "default": "now"}}
RUN_SPEC: dict[str, Any] = {
    "run_id": {"type": "str"},
    "requester": {"type": "str", "default": ""},
    "reason": {"type": "str", "default": ""},
    "slice": {"type": "int", "default": 8},
    "controller_uuid": {"type": "str", "default": ""},
}

MIGRATION_SPEC: dict[str, Any] = {
    "bandwidth": {"type": "int", "default": 0},
    "auto_converge": {"type": "bool", "default": False},
    "post_copy": {"type": "bool", "default": False, "aliases": aliases_of("post_copy")},
    "tls": {"type": "bool", "default": False},
    "parallel_connections": {"type": "int", "default": 0, "aliases": aliases_of("parallel_connections")},
    "compression": {"type": "list", "elements": "str", "choices": list(COMPRESSIONS), "default": []},
    "completion_timeout_per_gib": {"type": "int", "default": 150},
    "progress_timeout": {"type": "int", "default": 150},
    "max_downtime_ms": {"type": "int", "default": 0},
    "on_timeout": {"type": "str", "choices": list(CHOICES["on_timeout"]), "default": "abort"},
}

# What a rule does not set is left to the next in line, so nothing has a default.
RULE_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "when": {"type": "str"},
    "strategy": {"type": "str", "choices": [s.value for s in EvictionStrategy]},
    "on_not_migratable": {"type": "str", "choices": [s.value for s in OnNotMigratable]},
    "allow_stop": {"type": "bool"},
    "allow_older_hypervisor": {"type": "bool"},
    "priority": {"type": "int"},
    "migration": {
        "type": "dict",
        "options": {
            name: {key: value for key, value in spec.items() if key != "default"}
            for name, spec in MIGRATION_SPEC.items()
        },
    },
    "hooks": {"type": "dict", "options": {hook: {"type": "str"} for hook in HOOKS}},
    "unknown": {"type": "str", "choices": list(UNKNOWN_ANSWERS)},
}

POLICY_SPEC: dict[str, Any] = {
    "strategy": {"type": "str", "choices": [s.value for s in EvictionStrategy], "default": "LiveMigrate"},
    "on_not_migratable": {"type": "str", "choices": [s.value for s in OnNotMigratable], "default": "block"},
    "allow_stop": {"type": "bool", "default": False},
    "force_stop": {"type": "bool", "default": False},
    "move_inactive": {"type": "bool", "default": False},
    "limits": {
        "type": "dict",
        "default": {},
        "options": {
            "cluster": {"type": "int", "default": 5},
            "outbound": {"type": "int", "default": 2},
            "inbound": {"type": "int", "default": 2},
        },
    },
    "placement_profile": {"type": "str", "choices": [p.value for p in Profile], "default": Profile.LOW.value},
    "anti_affinity": {"type": "str", "choices": ["preferred", "required"], "default": "preferred"},
    "migration": {"type": "dict", "default": {}, "options": MIGRATION_SPEC},
    "rules": {"type": "list", "elements": "dict", "default": [], "options": RULE_SPEC},
    "measure_dirty_rate": {"type": "int", "default": 0},
    "shutdown_timeout": {"type": "float", "default": 120.0},
    **OPTIONS_SPEC,
}


def params_of(module: Any) -> Mapping[str, Any]:
    """The options. A password in a URI is refused later; what says so (`-vvv` prints all options)
    does not show it."""
    params: Mapping[str, Any] = module.params
    peers = params.get("peers") or []
    uris = [params.get("uri"), *(peer[key] for peer in peers for key in ("uri", "migrate_uri"))]
    hide(module, (found for uri in uris for found in passwords_in(uri or "")))
    return params


def without_password(where: str, uri: str) -> str:
    if passwords_in(uri):
        raise PolicyError(
            f"{where} holds a password, which libvirt would not use, and which would be printed. Use"
            " certificates (qemu+tls), ssh keys (qemu+ssh) or libvirt's auth.conf"
        )
    return uri


def own_config(params: Mapping[str, Any]) -> HostConfig:
    """The host that the module runs on. Raises PolicyError naming what is wrong."""
    name = _node_name("node", params.get("node") or socket.gethostname())
    if not params["uri"]:
        raise PolicyError("uri is empty: expected the URI of the host's own libvirt")
    for number in ("memory", "reserve"):
        _not_negative(number, params.get(number, 0))
    for path in params["shared_paths"]:
        if not path.startswith("/") or not path.strip("/"):
            # An empty one, or the root, would stand for every path there is.
            raise PolicyError(f"shared_paths names {path!r}: expected an absolute path other than /")
    seconds = params.get("measure_dirty_rate") or 0
    if not 0 <= seconds <= LONGEST:
        raise PolicyError(f"measure_dirty_rate is {seconds}: expected seconds from 1 to {LONGEST}, or 0")
    return HostConfig(
        name=name,
        uri=without_password("uri", params["uri"]),
        memory_mib=params["memory"],
        reserve_mib=params.get("reserve", 0),
        labels=constraints_text.labels("labels", params.get("labels")),
        taints=constraints_text.taints("taints", params.get("taints")),
        shared_paths=tuple(params["shared_paths"]),
        measure_seconds=seconds,
    )


def peer_configs(params: Mapping[str, Any]) -> list[HostConfig]:
    """The peers. Raises PolicyError naming what is wrong, for example a name that comes twice."""
    own = params.get("node") or socket.gethostname()
    seen: set[str] = set()
    configs = []
    for peer in params["peers"]:
        name = _node_name("peers[].name", peer["name"])
        for number in ("memory", "reserve"):
            _not_negative(f"peers[].{number} of {name}", peer[number])
        if name == own:
            raise PolicyError(f"peers names {own}, the host itself: it cannot take its own VMs")
        if name in seen:
            raise PolicyError(f"peers names {name} twice")
        if not peer["uri"]:
            raise PolicyError(f"peers: {name} has no uri, for example qemu+tls://{name}/system")
        seen.add(name)
        configs.append(
            HostConfig(
                name=name,
                uri=without_password(f"peers[].uri of {name}", peer["uri"]),
                memory_mib=peer["memory"],
                reserve_mib=peer["reserve"],
                roll_rank=peer["roll_rank"],
                roll_done=peer["roll_done"],
                expects=frozenset(peer.get("expects") or ()),
                migrate_uri=without_password(f"peers[].migrate_uri of {name}", peer["migrate_uri"]),
                labels=constraints_text.labels(f"peers[].labels of {name}", peer.get("labels")),
                taints=constraints_text.taints(f"peers[].taints of {name}", peer.get("taints")),
            )
        )
    same = one_host({config.name: config.uri for config in configs}, "URI")
    if same:
        raise PolicyError(f"peers: {same}")
    return configs


def _node_name(where: str, name: str) -> str:
    if not can_name_a_node(name):
        raise PolicyError(
            f"{where} is {name!r}: expected letters, digits, '.', '_' and '-', at most 151 and not"
            " starting with '.' or '-'. Give the host such a name; its address belongs in the URI."
        )
    return name


def _not_negative(where: str, mib: int) -> None:
    if mib < 0:
        raise PolicyError(f"{where} is {mib}: expected MiB, 0 or more")


def policy(params: Mapping[str, Any]) -> Policy:
    """The policy. Raises PolicyError naming what is wrong, in a rule too."""
    migration = migration_settings(params["migration"])
    return Policy(
        rules=compile_rules(params["rules"], migration),
        default_strategy=EvictionStrategy(params["strategy"]),
        on_not_migratable=OnNotMigratable(params["on_not_migratable"]),
        allow_stop=params["allow_stop"],
        force_stop=params["force_stop"],
        move_inactive=params["move_inactive"],
        limits=Limits(**params["limits"]) if params["limits"] else Limits(),
        placement_policy=PlacementPolicy(Profile(params["placement_profile"]), params["anti_affinity"] == "required"),
        migration=migration,
        let_finish=params.get("abort") == "finish",
        shutdown_timeout=params["shutdown_timeout"],
        **{name: params[name] for name in OPTIONS_SPEC},
    )


def run_id(params: Mapping[str, Any]) -> str:
    """The run's id: given, or made of the time and a random part."""
    return params.get("run_id") or f"{int(time.time())}-{secrets.token_hex(3)}"


def requester(params: Mapping[str, Any]) -> str:
    """The requester: as given, or the user of the connection."""
    return params.get("requester") or os.environ.get("SUDO_USER") or os.environ.get("USER") or "root"
