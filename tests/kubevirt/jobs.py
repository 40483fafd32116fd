"""Jobs as AWX runs them: docs/awx by ansible-runner, with a survey's answers and the credential's injectors."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ansible_runner
import yaml

from ansible_collections.virtops.maintenance.tests.kubevirt import plays

AWX = plays.ROOT / "docs" / "awx"


class _Loader(yaml.SafeLoader):
    """Reads Ansible's !unsafe as the text that it is."""


_Loader.add_constructor("!unsafe", _Loader.construct_yaml_str)


def answers(template: str, **given: Any) -> dict[str, Any]:
    """Of the template's survey, as AWX hands them over: what nobody typed is the default, a text is a text."""
    surveys = yaml.load((AWX / "surveys.yml").read_text(encoding="utf-8"), _Loader)["surveys"]
    spec = surveys[template]["spec"] if template in surveys else []
    asked = {question["variable"]: question.get("default", "") for question in spec}
    assert set(given) <= set(asked), "the survey asks no such question"
    return {**asked, **given}


def _injected(kubeconfig: Path, private: Path) -> dict[str, str]:
    """What the credential type makes of a kubeconfig: a file, and the variable that names it."""
    (kind,) = yaml.load((AWX / "credential_types.yml").read_text(encoding="utf-8"), _Loader)["credential_types"]
    name = private / "env" / "tmp_kubeconfig"
    text = kubeconfig.read_text(encoding="utf-8")
    name.write_text(kind["injectors"]["file"]["template"].replace("{{ kubeconfig }}", text), encoding="utf-8")
    return {key: value.replace("{{ tower.filename }}", str(name)) for key, value in kind["injectors"]["env"].items()}


class Job:
    """One job. `runner` is there when it has ended."""

    def __init__(self, **words: Any) -> None:
        self._cancelled = threading.Event()
        self.runner: Any = None
        self._words = {**words, "cancel_callback": self._cancelled.is_set}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.runner = ansible_runner.run(**self._words)

    def cancel(self) -> None:
        self._cancelled.set()

    def wait(self) -> Job:
        self._thread.join(plays.LONGEST)
        assert not self._thread.is_alive(), "the job does not end"
        return self

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.runner.events)

    @property
    def stdout(self) -> str:
        """What the operator sees: the events' texts, one after the other."""
        return "\n".join(event["stdout"] for event in self.events if event["stdout"])

    @property
    def artefacts(self) -> dict[str, Any]:
        """What AWX gives to the later nodes of a workflow."""
        (last,) = [event for event in self.events if event["event"] == "playbook_on_stats"]
        return dict(last["event_data"].get("artifact_data") or {})


class Jobs:
    """A folder for each job, as AWX makes it: project, inventory, environment, extra vars."""

    def __init__(self, kubeconfig: Path, tmp: Path) -> None:
        self._kubeconfig, self._tmp, self._ids = kubeconfig, tmp, 0

    def start(
        self, template: str, given: Mapping[str, Any], hosts: Sequence[str] = ("n1", "n2", "n3"), cmdline: str = ""
    ) -> Job:
        """`given`: extra vars, the answers to its survey. `hosts`: of the inventory. `cmdline`: --check, for a job
        of the type Check."""
        self._ids += 1
        private = self._tmp / f"job-{self._ids}"
        (private / "env").mkdir(parents=True)
        shutil.copytree(AWX, private / "project")
        found = {"all": {"hosts": {name: {} for name in hosts}, "vars": {"maintenance_platform": "kubevirt"}}}
        (private / "inventory").mkdir()
        (private / "inventory" / "hosts.json").write_text(json.dumps(found), encoding="utf-8")
        environment = {
            **{key: value for key, value in plays.environment(private, private).items() if key.startswith("ANSIBLE_")},
            **_injected(self._kubeconfig, private),
            "MAX_EVENT_RES": str(10**9),  # a test measures what would be dropped
        }
        return Job(
            private_data_dir=str(private),
            playbook=f"{template}.yml",
            ident=str(self._ids),
            extravars=dict(given),
            envvars=environment,
            settings={"pexpect_timeout": 1},
            quiet=True,
            **({"cmdline": cmdline} if cmdline else {}),
        )

    def run(self, template: str, given: Mapping[str, Any], **more: Any) -> Job:
        return self.start(template, given, **more).wait()


def results(job: Job) -> dict[str, int]:
    """Task -> characters of its largest result, by which ansible-runner drops it. Of those above a thousand."""
    found: dict[str, int] = {}
    for event in job.events:
        data = event.get("event_data", {})
        size = len(str(data.get("res", "")))
        if size > max(1000, found.get(data.get("task", ""), 0)):
            found[data["task"]] = size
    return found
