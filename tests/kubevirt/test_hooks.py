"""Hooks of rules by ansible-playbook: the role runs them, the Node remembers the answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.tests.kubevirt import plays
from kubesim import Kubesim
from kubesim.kinds import NODES
from kubesim.reading import DISKS, clean

# The machine's own clock, which the simulator's log has too.
CLOCK = "$(python3 -c 'import time; print(time.monotonic())')"
TELL = {
    "name": "Tell of it",
    "ansible.builtin.shell": f'echo "{CLOCK} {{{{ maintenance_hook.hook }}}} '
    "{{ maintenance_hook.name }} {{ maintenance_hook.namespace }} {{ maintenance_hook.node }} "
    '{{ maintenance_hook.verdict }} [{{ maintenance_hook.target }}]" >> "$TOLD"',
    "delegate_to": "localhost",
}
REFUSE = {"name": "No", "ansible.builtin.fail": {"msg": "the load balancer is away"}}
# A host that nobody reaches: what is delegated to it is not done.
AWAY = {"name": "Ask a host", "ansible.builtin.ping": {}, "delegate_to": "balancer"}
ON = {
    "drain": {"ansible.builtin.include_role": {"name": "virtops.maintenance.drain"}},
    "restore": {"ansible.builtin.include_role": {"name": "virtops.maintenance.restore"}},
}
WEB = {"labels": {"tier": "web"}}


class Plays(plays.Plays):
    """A folder with playbooks and task files, and the hooks that were run."""

    def __init__(self, sim: Kubesim, folder: Path) -> None:
        super().__init__(sim, folder)
        self.folder = folder
        self._env["TOLD"] = str(folder / "told")
        known = plays.inventory()["all"]
        known["hosts"]["balancer"] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1:1"}
        rule = {"name": "web", "when": "labels.tier == 'web'", "hooks": {"before": "out.yml", "after": "back.yml"}}
        known["vars"]["maintenance_rules"] = [rule]
        self._hosts.write_text(json.dumps({"all": known}), encoding="utf-8")
        self.hooks(out=[TELL], back=[TELL])

    def hooks(self, **files: list[dict[str, Any]]) -> None:
        for name, tasks in files.items():
            (self.folder / f"{name}.yml").write_text(yaml.safe_dump(tasks), encoding="utf-8")

    def run(self, what: Any, *more: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """A task on n1, or a playbook of the collection by its name."""
        if not isinstance(what, dict):
            return super().run(f"virtops.maintenance.{what}", *more, maintenance_hosts="n1", **variables)
        play = {"hosts": "n1", "gather_facts": False, "tasks": [what]}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        return super().run("play.yml", *more, **variables)

    @property
    def told(self) -> list[list[str]]:
        """What the hooks told: time, hook, name, namespace, node, verdict, target."""
        file = self.folder / "told"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(line[1], line[2]) for line in self.told]


@pytest.fixture(name="plays")
def _plays(sim: Kubesim, tmp_path: Path) -> Plays:
    return Plays(sim, tmp_path)


def stages(sim: Kubesim) -> dict[str, str]:
    """How far the VMs are with their hooks, by the record on the Node."""
    notes = sim.find(NODES, "n1")["metadata"].get("annotations", {})
    record = json.loads(notes.get("virtops.maintenance/record", '{"vms": {}}'))
    return {vm["name"].split("/")[1]: vm["hook_stage"] for vm in record["vms"].values()}


def evicted(sim: Kubesim) -> list[str]:
    """VMs that were asked to go; what only the server tried out does not count."""
    asked = [c for c in sim.requests("POST", "/eviction") if "dryRun" not in c.query]
    return sorted(call.path.split("/")[-2].split("-")[2] for call in asked)


@pytest.mark.full
def test_the_role_runs_the_hooks_around_the_move(sim, plays) -> None:
    for name in ("web1", "web2"):
        sim.add_vm(name, "n1", **WEB)
    sim.add_vm("db", "n1")
    done = plays.run(ON["drain"])
    assert done.returncode == 0, done.stdout
    assert plays.asked[:2] == [("before", "web1"), ("before", "web2")]
    assert sorted(plays.asked[2:]) == [("after", "web1"), ("after", "web2")]
    assert plays.told[0][3:] == ["default", "n1", "pending", "[]"]
    for _at, _hook, name, *rest in plays.told[2:]:
        assert rest == ["default", "n1", "moved", f"[{sim.node_of(name)}]"]
    asked = {c.path.split("/")[-2].split("-")[2]: c.at for c in sim.requests("POST", "/eviction")}
    opened = {name: float(at) for at, hook, name, *_rest in plays.told if hook == "before"}
    assert asked["db"] < min(opened.values())  # it did not wait for the others' hooks
    assert all(opened[name] < asked[name] for name in opened)
    assert stages(sim) == {"web1": "after", "web2": "after", "db": ""}
    # Drained is drained: nothing is asked for again.
    again = plays.run(ON["drain"])
    assert again.returncode == 0 and len(plays.told) == 4, again.stdout
    assert plays.run(ON["restore"]).returncode == 0 and len(plays.told) == 4
    assert clean(sim)


@pytest.mark.full
def test_with_a_limit_one_after_the_other_is_out_of_service(sim, plays) -> None:
    """More rounds than the role has on one level."""
    names = [f"web{number}" for number in range(5)]
    for name in names:
        sim.add_vm(name, "n1", **WEB)
    done = plays.run(ON["drain"], drain_limits={"outbound": 1})
    assert done.returncode == 0, done.stdout
    out: set[str] = set()
    for hook, name in plays.asked:
        (out.add if hook == "before" else out.remove)(name)
        assert len(out) <= 2  # a place is free as soon as the migration has ended
    assert sorted(plays.asked) == sorted((hook, n) for hook in ("before", "after") for n in names)


@pytest.mark.full
def test_a_hook_that_fails_leaves_the_vm_where_it_is(sim, plays) -> None:
    sim.add_vm("web", "n1", **WEB)
    sim.add_vm("db", "n1")
    plays.hooks(out=[TELL, REFUSE])
    done = plays.run("drain")
    assert done.returncode != 0 and "the load balancer is away" in done.stdout
    assert sim.node_of("web") == "n1" and evicted(sim) == ["db"]
    assert stages(sim)["web"] == "asked"
    # The next run asks for it again, and then goes on.
    plays.hooks(out=[TELL])
    done = plays.run("drain")
    assert done.returncode == 0, done.stdout
    assert plays.asked == [("before", "web"), ("before", "web"), ("after", "web")]
    assert sim.node_of("web") != "n1"


@pytest.mark.full
def test_an_after_that_fails_keeps_the_node_from_drained(sim, plays) -> None:
    sim.add_vm("web", "n1", **WEB)
    plays.hooks(back=[TELL, REFUSE])
    done = plays.run(ON["drain"])
    assert done.returncode != 0 and sim.node_of("web") != "n1"
    assert stages(sim) == {"web": "before"}
    plays.hooks(back=[TELL])
    back = plays.run(ON["restore"])
    assert back.returncode == 0, back.stdout
    assert plays.asked == [("before", "web"), ("after", "web"), ("after", "web")]
    assert clean(sim)


@pytest.mark.full
def test_a_restore_closes_what_was_opened(sim, plays) -> None:
    """Before an abort, the tasks may have come some of their way."""
    sim.add_vm("web", "n1", **WEB)
    plays.hooks(out=[TELL, REFUSE])
    assert plays.run(ON["drain"]).returncode != 0
    back = plays.run(ON["restore"])
    assert back.returncode == 0, back.stdout
    assert plays.asked == [("before", "web"), ("after", "web")]
    assert plays.told[-1][5] == "restored" and sim.node_of("web") == "n1"
    assert clean(sim)


@pytest.mark.full
def test_a_stopped_vm_has_its_after_again_once_it_runs(sim, plays) -> None:
    sim.add_vm("web", "n1", strategy="None", run_strategy="Manual", **WEB)
    done = plays.run("rolling_maintenance", drain_allow_stop=True, maintenance_reboot=False)
    assert done.returncode == 0, done.stdout
    assert [line[1] for line in plays.told] == ["before", "after", "after"]
    assert [line[5] for line in plays.told[:2]] == ["pending", "stopped"]
    assert sim.running("web") and clean(sim)


@pytest.mark.full
def test_a_hook_on_a_host_that_is_lost_is_no_answer(sim, plays) -> None:
    """Our playbooks tell of a lost host by themselves, and ignore it in the role until then."""
    sim.add_vm("web", "n1", **WEB)
    plays.hooks(out=[AWAY, TELL])
    role = {"name": "virtops.maintenance.drain", "apply": {"ignore_unreachable": True}}
    done = plays.run({"ansible.builtin.include_role": role})
    assert done.returncode != 0 and "UNREACHABLE" in done.stdout, done.stdout
    assert plays.told == [] and sim.node_of("web") == "n1"
    assert stages(sim) == {"web": "asked"}


@pytest.mark.full
def test_a_hook_without_its_file_is_told_before_anything_is_done(sim, plays) -> None:
    sim.add_vm("web", "n1", **WEB)
    sim.add_vm("db", "n1")
    (plays.folder / "back.yml").unlink()
    done = plays.run("drain")
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert "rules[0] (web), hooks.after: there is no file" in text and "back.yml" in text
    assert evicted(sim) == [] and plays.told == []
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")


@pytest.mark.full
def test_a_restore_without_its_hook_is_no_success(sim, plays) -> None:
    """It ended with exit code 0. The node is in service, and its record says what is left to do."""
    sim.add_vm("web", "n1", **WEB)
    plays.hooks(out=[TELL, REFUSE])
    assert plays.run(ON["drain"]).returncode != 0
    (plays.folder / "back.yml").unlink()
    done = plays.run("restore")
    assert done.returncode != 0, done.stdout
    assert "n1 is not restored" in done.stdout and "/back.yml on the controller" in done.stdout
    assert not clean(sim)
    plays.hooks(back=[TELL])
    assert plays.run("restore").returncode == 0 and clean(sim)


@pytest.mark.full
def test_check_mode_names_the_hooks_and_runs_none(sim, plays) -> None:
    sim.add_vm("web", "n1", **WEB)
    done = plays.run("drain", "--check")
    assert done.returncode == 0, done.stdout
    text = " ".join(done.stdout.split())
    assert "default/web would be migrated" in text and "before: out.yml after: back.yml" in text
    assert "would not become Drained" not in text
    assert plays.told == [] and stages(sim) == {}


@pytest.mark.full
def test_without_the_role_the_module_says_what_to_do(sim, plays) -> None:
    sim.add_vm("web", "n1", **WEB)
    module = "virtops.maintenance.kubevirt_drain"
    rules = [{"name": "all", "hooks": {"before": "out.yml"}}]
    first = {"name": "Begin", module: {"node": "n1", "run_id": "mine", "rules": rules}}
    more = {"begun": True, "hooks_done": "{{ drain.needs }}"}
    second = {"name": "Go on", module: {**first[module], **more}}
    tell = {"name": "Answer", "ansible.builtin.debug": {"msg": "{{ drain.needs }}"}}
    register = {"register": "drain", "ignore_errors": True}
    # A failure: who does not know of hooks must not go on to a reboot.
    done = plays.run({**first, "delegate_to": "localhost"})
    assert done.returncode != 0 and sim.node_of("web") == "n1"
    block = {"block": [{**first, **register}, tell, second], "delegate_to": "localhost"}
    done = plays.run(block)
    assert done.returncode == 0, done.stdout
    text = " ".join(done.stdout.split())
    assert "n1 is Draining, not Drained: hooks wait for an answer." in text
    assert "call again with run_id=mine, begun=true, and hooks_done as `needs` is" in text
    assert sim.node_of("web") != "n1" and plays.told == []


def test_a_run_that_was_killed_does_not_run_an_answered_hook_again(sim, operator) -> None:
    """Slice by slice: the answer is on the Node before anything is asked of KubeVirt."""
    sim.add_vm("web", "n1", migrate_seconds="300", **WEB)
    sim.add_vm("stuck", "n1", **WEB, **DISKS)
    rules = [{"name": "web", "hooks": {"before": "out.yml", "after": "back.yml"}}]
    found = operator.slice(Intent.DRAINED, run_id="one", rules=rules)
    assert (found["ended"], found["phase"]) == ("needs", "Draining")
    assert [(need["name"], need["hook"]) for need in found["needs"]] == [("web", "before")]
    rows = {vm["name"]: (vm["reason"], vm["hooks"]) for vm in found["vms"]}
    files = {"before": "out.yml", "after": "back.yml"}
    assert rows["default/web"] == ("HookPending", files)
    assert rows["default/stuck"] == ("DisksNotLiveMigratable", files)
    assert evicted(sim) == []
    answers = {"hooks_done": found["needs"], "begun": True}
    operator.answer(Intent.DRAINED, 1.0, "one", rules, **answers)
    assert stages(sim)["web"] == "before"
    # Killed here, its answer lost: another run knows.
    again = operator.slice(Intent.DRAINED, 1.0, run_id="two", rules=rules)
    assert again["needs"] == [] and evicted(sim) == ["web"]
