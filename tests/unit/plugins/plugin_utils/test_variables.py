"""A variable with a typo, or of another kind, is told before anything is done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

from ansible_collections.virtops.maintenance.plugins.plugin_utils._variable_checks import (
    INTERNAL,
    OURS,
    SHARED,
    faults,
    known,
)

ROOT = Path(__file__).resolve().parents[4]
TYPES = (
    "str",
    "bool",
    "int",
    "float",
    "list",
    "dict",
    "path",
    "raw",
    "reboot",
    "share",
    "duration",
    "time",
    "file",
    "folder",
)


def told(**given: Any) -> list[str]:
    return faults(given, given.__getitem__, ["a", "b"], DataLoader(), hooks=True)


def test_what_needs_another_one_or_an_extra_var_says_so() -> None:
    assert "needs maintenance_report" in told(maintenance_textfile="/x/roll.prom")[0]
    assert told(maintenance_textfile="/x/roll.prom", maintenance_report="/x") == []
    assert "expected an extra var, -e maintenance_notify=" in told(maintenance_notify="notify.yml")[0]


def test_what_would_be_replaced_is_a_file_and_what_gets_the_report_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    file.touch()
    good = {"maintenance_status_file": str(file), "maintenance_report": str(tmp_path / "new")}
    assert told(**good) == []
    page = told(maintenance_report=str(tmp_path / "report.html"))
    assert "a folder, in which report.html is made" in page[0]
    wrong = told(maintenance_status_file="/dev/null", maintenance_plan_file=str(tmp_path), maintenance_report=str(file))
    assert wrong == [
        f"maintenance_plan_file is '{tmp_path}': expected the path of a file; this is a folder.",
        f"maintenance_report is '{file}': expected the path of a folder; this is a file.",
        "maintenance_status_file is '/dev/null': expected the path of a file; this is neither a file nor a folder.",
    ]


def test_a_typo_is_told_with_what_was_meant() -> None:
    assert told(maintenance_reboots=False) == [
        "maintenance_reboots is not a variable of this collection; did you mean maintenance_reboot? "
        "If it is your own, add it to maintenance_own_variables."
    ]
    assert "did you mean" not in told(maintenance_kubeconfig="/x")[0]
    assert "did you mean drain_allow_stop?" in told(drain_allow_stopp=True)[0]
    assert told(maintenance_window="Sunday", maintenance_own_variables=["maintenance_window"]) == []
    assert told(backup_reboots=1, drain_result={}) == []


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("drain_on_timeout", """drain_migration, -e '{"drain_migration": {"on_timeout": ...}}'"""),
        ("plan_post_copy", """plan_migration, -e '{"plan_migration": {"post_copy": ...}}'"""),
        ("maintenance_migration_bandwidth", """drain_migration, -e '{"drain_migration": {"bandwidth": ...}}'"""),
        ("drain_outbound", """drain_limits, -e '{"drain_limits": {"outbound": ...}}'"""),
        ("maintenance_delete_emptydir_data", """maintenance_pods, -e '{"maintenance_pods": {"delete_emptydir_data"""),
        ("maintenance_fence_timeout", """maintenance_fence, -e '{"maintenance_fence": {"timeout": ...}}'"""),
        ("drain_metrics_url", """drain_metrics, -e '{"drain_metrics": {"url": ...}}'"""),
        ("maintenance_priority", """maintenance_rules, -e '{"maintenance_rules": [{"priority": ...}]}'"""),
    ],
)
def test_a_key_of_an_option_that_is_given_as_a_variable_is_told_as_that(name: str, where: str) -> None:
    """It was "did you mean drain_timeout?" of drain_on_timeout."""
    (text,) = told(**{name: 1})
    assert text.startswith(f"{name} is not a variable of this collection; it is a key of {where}"), text
    assert told(**{name: 1, "maintenance_own_variables": [name]}) == []
    assert "it is a key of" not in told(maintenance_timeout=1)[0]


def test_what_ansible_cuts_from_a_value_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason was written down as its first word; of the hosts "a, b" the first one was drained."""
    given = {"maintenance_reason=new DIMMs": ["DIMMs"], 'maintenance_reason="new DIMMs"': []}
    for extra, left in given.items():
        monkeypatch.setattr(context, "CLIARGS", {"extra_vars": (extra,)})
        monkeypatch.setattr(load_extra_vars, "extra_vars", None, raising=False)
        found = told(maintenance_reason="new")
        assert [text.partition(",")[0] for text in found] == [f"-e has '{rest}'" for rest in left], found


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("maintenance_reboot", "true ", "one of auto, always, never, true, false"),
        ("maintenance_reboot", "maybe", "one of auto, always, never, true, false"),
        ("maintenance_reboot", 2, "one of auto, always, never, true, false"),
        ("maintenance_reboot", "Auto", "one of auto, always, never, true, false"),
        ("maintenance_soak", "5 minutes", "seconds, or a number with s, m or h"),
        ("maintenance_until", "soon", "a time such as '06:00'"),
        ("maintenance_until", 1350, "a time such as '06:00'"),
        ("maintenance_reboot_timeout", "15m", "a whole number, without a unit"),
        ("maintenance_reboot_timeout", 0, "a number above 0"),
        ("maintenance_link_mib_s", "0", "a number above 0"),
        ("maintenance_link_mib_s", "nan", "a number, without a unit"),
        ("drain_pending_timeout", "inf", "a number, without a unit"),
        ("drain_limits", '{"outbound":1}', """a dict; as an extra var: -e '{"drain_limits": """),
        (
            "drain_limits",
            {"outbond": 1},
            "a dict with some of cluster, outbound, inbound, each 1 or more, and not outbond",
        ),
        ("drain_limits", {"outbound": 0}, "a dict with some of cluster, outbound, inbound"),
        ("drain_backoff", "-1", "0 or more"),
        ("maintenance_max_failures", -1, "0 or more"),
        ("maintenance_dirty_rates", {"a": 1, "b": "40m"}, "a number, without a unit, for b"),
        ("maintenance_rules", ["w"], "a list of dicts"),
        ("maintenance_max_unavailable_per", {"rack": 1, "site": 0}, "a number of hosts above 0 for site"),
        ("maintenance_max_unavailable_per", "rack", "a dict; "),
        ("maintenance_max_unavailable", "0%", "a number of hosts above 0, or a share"),
        ("plan_max_unavailable", "some", "a number of hosts above 0, or a share"),
        ("maintenance_fleet", "", "a list; "),
        ("drain_fleet", ["a", "x"], "names of the inventory, which does not have x"),
        ("maintenance_dirty_rates", '{"n1-live":40}', "a dict; "),
        ("maintenance_labels", '{"zone":"a"}', "a dict; "),
        ("maintenance_rules", '{"name":"w"}', "a list; "),
        ("drain_rules", "[...]", "a list; "),
        ("maintenance_fleet", "a,b", """a list; as an extra var: -e '{"maintenance_fleet": ["a","""),
        ("maintenance_platform", "kubvirt", "one of libvirt, kubevirt"),
        ("maintenance_tasks", ["a.yml"], "one text"),
    ],
)
def test_a_value_of_another_kind(name: str, value: Any, wanted: str) -> None:
    (text,) = told(**{name: value})
    assert text.startswith(f"{name} is {value!r}: expected {wanted}")


def test_a_token_is_not_shown() -> None:
    (text,) = told(drain_metrics='{"token": "verysecret"}')
    assert text.startswith("drain_metrics is not shown: expected a dict")
    assert "verysecret" not in text


def test_what_a_survey_gives_is_understood() -> None:
    good = {"maintenance_reboot": "True", "maintenance_reboot_timeout": "900", "drain_backoff": "5"}
    assert told(**good, drain_strategy="None") == []
    numbers = {"drain_limits": {"outbound": "2"}, "maintenance_dirty_rates": {"vm": "1.5"}}
    assert told(**numbers, plan_max_unavailable="20%") == []


def test_a_variable_that_yaml_leaves_empty_is_told() -> None:
    """Ansible calls it defined: a playbook failed in its middle, in words of Ansible's."""
    assert {name for name in known() if told(**{name: None})} == set(known())
    assert told(maintenance_fence=None) == [
        "maintenance_fence is empty: give it a value, {} for none, or leave it out."
    ]
    assert told(drain_plan_file=None) == ["drain_plan_file is empty: give it a value, or leave it out."]


def test_an_empty_text_is_as_good_as_not_given() -> None:
    """But for lists and dicts, which no question of a survey gives, and where a role's own variable
    hides a shared one."""
    refused = {name for name in known() if told(**{name: ""})}
    lists = {name for name, spec in known().items() if spec["type"] in ("list", "dict")}
    hiding = {"drain_memory", "drain_platform", "preflight_api_host", "plan_max_unavailable"}
    taken = {"maintenance_memory", "drain_strategy", "drain_timeout", "drain_reason", "plan_must_fit"}
    assert lists | hiding <= refused
    assert not refused & (taken | {name for name in known() if name in SHARED} - lists)
    assert told(restore_memory="") == ["restore_memory is '': expected a value; give maintenance_memory instead."]


def test_what_a_drain_would_refuse_is_told_before() -> None:
    assert told(drain_max_attempts="0") == ["drain_max_attempts is '0': max_attempts must be 1 or more, not 0."]
    assert "shutdown_timeout must be more than 0" in told(drain_shutdown_timeout=0)[0]
    (text,) = told(drain_rules=[{"name": "r", "when": "memori > `5`"}])
    assert text == ("drain_rules: rules[0] (r), when: there is no field memori here; did you mean memory_mib?")
    rules = [{"name": "r", "hooks": {"before": "/none.yml"}}]
    (text,) = told(maintenance_rules=rules)
    assert text.startswith("maintenance_rules: rules[0] (r), hooks.before: there is no file /none")
    # Who runs no hook, and begins no roll, is kept from nothing by what was there and is over.
    past = {"maintenance_rules": rules, "maintenance_until": "2026-03-01T06:00"}
    assert faults(past, past.__getitem__, [], DataLoader()) == []


def test_the_variable_that_was_given_is_named_and_not_what_a_role_makes_of_it() -> None:
    (text,) = told(drain_memory="12G", maintenance_memory="12G", preflight_memory="12G")
    assert text.startswith("maintenance_memory is '12G'")


def test_a_value_that_is_not_known_yet_is_left_to_the_role() -> None:
    def value(name: str) -> Any:
        raise LookupError(name)

    assert faults(["drain_rules"], value) == []


def test_every_variable_that_roles_and_playbooks_use_is_known() -> None:
    """And none is known that nothing uses."""
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/[dtv]*/*.yml")]
    files += ROOT.glob("plugins/filter/*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    set_here = re.findall(r"register: (\w+)", text)
    used = {name for name in re.findall(r"\b[a-z]+_[a-z_]+\b", text) if OURS.match(name)}
    assert {name for name in set_here if OURS.match(name)} <= INTERNAL
    shared = {name for name in used if name.startswith("maintenance_")}
    modules = {f"maintenance_{name}" for name in ("host", "host_reboot", "plan", "reboot_info", "show")}
    assert shared - INTERNAL - modules - {"maintenance_own_variables"} == (set(SHARED) - {"maintenance_own_variables"})
    for spec in known().values():
        assert spec["type"] in TYPES
