"""Migration settings that a rule asks for, and KubeVirt migrates without. Pure.

KubeVirt takes the settings of a migration from its own object and from the MigrationPolicy that
selects the VM. A drain imposes none and makes no policy: it says where they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..._core.decision.strategy import Way, choose
from ..._core.model.observation import VM, Observation
from ..._core.model.policy import Policy

if TYPE_CHECKING:  # the action plugin needs the words alone, and not the client of Kubernetes
    from ..records.node_record import Instance

_MIGRATES = (Way.MIGRATE, Way.WAIT)
# The option's word -> the word of what applies (migration_policy.result_form).
_APPLIES_KEYS = {
    "auto_converge": "allow_auto_converge",
    "post_copy": "allow_post_copy",
    "bandwidth": "bandwidth_mib_s",
    "completion_timeout_per_gib": "completion_timeout_per_gib",
    "progress_timeout": "progress_timeout",
    "max_downtime_ms": "max_downtime_ms",
    "on_timeout": "on_timeout",
    "tls": "tls",
}
# What a MigrationPolicy has for it.
_FIELDS = {
    "auto_converge": "allowAutoConverge",
    "post_copy": "allowPostCopy",
    "bandwidth": "bandwidthPerMigration",
    "completion_timeout_per_gib": "completionTimeoutPerGiB",
    "max_downtime_ms": "maxDowntimeMs",
}
_ON_TIMEOUT = {
    "abort": "allowWorkloadDisruption: false",
    "post_copy": "allowPostCopy: true",
    "pause": "allowPostCopy: false and allowWorkloadDisruption: true",
}
_NOWHERE = "KubeVirt has no such setting; give these VMs a rule without it."


def note_wanted(obs: Observation, node: str, policy: Policy, known: Mapping[str, Instance]) -> None:
    """Put with each VM of the node what its rule asks for, as long as it is there to be asked."""
    asks = any(rule.asked for rule in policy.rules)
    for uuid, vm in obs.vms.items():
        if uuid in known and vm.node == node:
            known[uuid].wanted = asked(vm, policy) if asks else {}


def asked(vm: VM, policy: Policy) -> dict[str, Any]:
    """The migration settings that the VM's rule asks for, option -> value; {} for a VM that does not migrate."""
    choice = choose(vm, policy)
    return dict(choice.asked) if choice.way in _MIGRATES else {}


def rows(one: Instance) -> list[dict[str, str]]:
    """A row for each setting that differs from the one that applies: setting, wanted, applies, remedy, all text."""
    found = []
    for setting, wanted in one.wanted.items():
        applies = _applies(setting, one.settings)
        if applies != wanted:
            text = "not known" if applies is None else _text(applies)
            row = {"setting": setting, "wanted": _text(wanted), "applies": text}
            found.append({**row, "remedy": remedy(setting, wanted)})
    return found


def _applies(setting: str, settings: Mapping[str, Any]) -> Any:
    """None: it could not be read."""
    if setting in _APPLIES_KEYS:
        return settings.get(_APPLIES_KEYS[setting])
    return [] if setting == "compression" else 0


def remedy(setting: str, wanted: Any) -> str:
    """Where the user can set it, as a sentence."""
    if setting in _FIELDS:
        value = f"{wanted}Mi" if setting == "bandwidth" else _text(wanted)
        return f"Make a MigrationPolicy that selects the VM, with {_FIELDS[setting]}: {value}."
    if setting == "on_timeout":
        return f"Make a MigrationPolicy that selects the VM, with {_ON_TIMEOUT[wanted]}."
    own = {"progress_timeout": f"progressTimeout: {wanted}"}
    own["tls"] = f"disableTLS: {_text(not wanted)}"
    if setting in own:
        return f"Only the KubeVirt object has it (configuration.migrations), {own[setting]}."
    return _NOWHERE


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def sentence(row: Mapping[str, str], who: str = "") -> str:
    """One difference as a sentence. `row`: of `rows`; `who`: the rule that asks for it."""
    by = f" ({who})" if who else ""
    return f"{row['setting']} should be {row['wanted']}{by}; KubeVirt's own applies: {row['applies']}. {row['remedy']}"


def lines(vms: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines to print: each difference once, with the names of the first five VMs that have it.

    `vms`: rows of the result, with `unmet_settings`, `decided_by` and `name`.
    """
    reported: dict[str, list[str]] = {}
    for vm in vms:
        for row in vm.get("unmet_settings") or ():
            reported.setdefault(sentence(row, vm["decided_by"]), []).append(vm["name"])
    found = []
    for text, names in reported.items():
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        found.append(f"{', '.join(names[:5])}{more}: {text}")
    return found
