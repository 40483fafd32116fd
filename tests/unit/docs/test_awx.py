"""docs/awx: what AWX would refuse, and what has drifted from the playbooks and their variables.

The rules for surveys are those of AWX's API (awx/api/views, `_validate_spec_data`), those for credential types its
schemas (awx/main/fields.py); both as of awx 24.6.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.plugin_utils import _variable_checks

ROOT = Path(__file__).resolve().parents[3]
AWX = ROOT / "docs" / "awx"
PROJECT = {"plan", "preflight", "roll", "status", "abort", "drain", "restore", "protect", "recover"}
DEFAULTS = {"text": str, "textarea": str, "password": str, "multiplechoice": str, "integer": int, "float": (int, float)}
RELATED = ("success_nodes", "failure_nodes", "always_nodes")


class Loader(yaml.SafeLoader):
    """Reads Ansible's !unsafe as the text that it is."""


Loader.add_constructor("!unsafe", Loader.construct_yaml_str)


def read(name: str) -> Any:
    return yaml.load((AWX / name).read_text(encoding="utf-8"), Loader)


SURVEYS: dict[str, Any] = read("surveys.yml")["surveys"]
SETUP: dict[str, Any] = read("setup.yml")[0]


def questions() -> list[Any]:
    return [pytest.param(one, id=f"{name}-{one['variable']}") for name, all_ in SURVEYS.items() for one in all_["spec"]]


@pytest.mark.parametrize("name", sorted(PROJECT))
def test_each_playbook_is_one_of_ours(name: str) -> None:
    (play,) = read(f"{name}.yml")
    collection, _dot, ours = play["ansible.builtin.import_playbook"].rpartition(".")
    assert collection == "virtops.maintenance"
    assert (ROOT / "playbooks" / f"{ours}.yml").is_file()


def test_each_playbook_of_the_collection_has_one() -> None:
    imported = {read(f"{name}.yml")[0]["ansible.builtin.import_playbook"].rpartition(".")[2] for name in PROJECT}
    assert imported == {path.stem for path in (ROOT / "playbooks").glob("*.yml")}


@pytest.mark.parametrize("name", sorted(SURVEYS))
def test_awx_takes_the_survey(name: str) -> None:
    survey = SURVEYS[name]
    assert name in PROJECT
    assert isinstance(survey["name"], str) and isinstance(survey["description"], str)
    variables = [one["variable"] for one in survey["spec"]]
    assert variables and len(variables) == len(set(variables))


def test_who_has_to_name_the_hosts_is_asked_for_them() -> None:
    """AWX passes no other variable and no limit: the job would end before it does anything."""
    for name in PROJECT:
        playbook = read(f"{name}.yml")[0]["ansible.builtin.import_playbook"].rpartition(".")[2]
        plays = read(f"../../playbooks/{playbook}.yml")
        if any("otherwise=" not in play["hosts"] for play in plays):
            (asked,) = [one for one in SURVEYS[name]["spec"] if one["variable"] == "maintenance_hosts"]
            assert asked["required"]


@pytest.mark.parametrize("question", questions())
def test_awx_takes_the_question(question: dict[str, Any]) -> None:
    assert {"type", "question_name", "variable", "required"} <= set(question)
    assert isinstance(question["required"], bool)
    assert question["type"] in DEFAULTS
    default = question.get("default", "")
    if default != "":
        assert isinstance(default, DEFAULTS[question["type"]])
    if question["type"] == "multiplechoice":
        assert all(isinstance(choice, str) for choice in question["choices"])
        assert default in question["choices"]


@pytest.mark.parametrize("question", questions())
def test_every_answer_is_one_that_the_variable_takes(question: dict[str, Any]) -> None:
    """Answers are texts, and an empty one arrives as ''."""
    name = question["variable"]
    assert name in _variable_checks.known()
    answers = list(question.get("choices", [])) + [question.get("default", "")] + ([] if question["required"] else [""])
    for answer in answers:
        assert _variable_checks.faults([name], {name: answer}.__getitem__) == []


def test_a_choice_lacks_no_value_of_its_variable() -> None:
    for survey in SURVEYS.values():
        for question in survey["spec"]:
            choices = _variable_checks.known()[question["variable"]].get("choices")
            if choices and question["type"] == "multiplechoice":
                assert set(question["choices"]) == set(choices)


@pytest.mark.parametrize("kind", read("credential_types.yml")["credential_types"], ids=lambda kind: str(kind["name"]))
def test_awx_takes_the_credential_type(kind: dict[str, Any]) -> None:
    fields = {field["id"]: field for field in kind["inputs"]["fields"]}
    assert kind["kind"] in ("cloud", "net")
    assert set(kind["inputs"]["required"]) <= set(fields)
    for field in fields.values():
        assert {"id", "label"} <= set(field) and field.get("type", "string") in ("string", "boolean")
    injected = kind["injectors"]
    for name in injected["env"]:
        assert re.fullmatch("[a-zA-Z_]+[a-zA-Z0-9_]*", name) and not name.startswith("ANSIBLE_")
    used = set(re.findall(r"{{ (\w+) }}", " ".join(injected["file"].values())))
    assert used == set(fields)


def task(module: str) -> dict[str, Any]:
    return next(one[f"awx.awx.{module}"] for one in SETUP["tasks"] if f"awx.awx.{module}" in one)


def test_each_playbook_gets_a_template_and_what_writes_is_never_run_twice_at_once() -> None:
    assert set(SETUP["vars"]["awx_templates"]) == PROJECT
    assert set(SETUP["vars"]["awx_reads"]) == {"plan", "preflight", "status"}
    assert task("job_template")["job_slice_count"] == 1


def test_the_workflow_leads_from_the_plan_over_an_approval_to_the_roll_and_only_from_a_failure_to_the_abort() -> None:
    nodes = {node["identifier"]: node for node in task("workflow_job_template")["workflow_nodes"]}
    ways = {
        (name, how, to["identifier"])
        for name, node in nodes.items()
        for how in RELATED
        for to in node.get("related", {}).get(how, [])
    }
    assert {to for _from, _how, to in ways} | {"plan"} == set(nodes)
    assert ways == {
        ("plan", "success_nodes", "approve the roll"),
        ("approve the roll", "success_nodes", "roll"),
        ("roll", "failure_nodes", "status"),
        ("status", "always_nodes", "approve the abort"),
        ("approve the abort", "success_nodes", "abort"),
    }
    for node in nodes.values():
        template = node["unified_job_template"]
        if template["type"] == "job_template":
            assert template["name"].removeprefix("{{ awx_prefix }}") in SETUP["vars"]["awx_templates"]
