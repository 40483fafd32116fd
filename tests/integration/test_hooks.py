"""Hooks of rules on real hosts. The hook itself reads with virsh where its VM runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from demo import plays, report, traces

from lab import GuestSpec, Lab, own_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

READ = {
    "name": "Is it on the source?",
    "ansible.builtin.command": "virsh list --name",
    "register": "seen",
    "changed_when": False,
}
TELL = {
    "name": "Tell of it",
    "ansible.builtin.shell": "echo '{{ maintenance_hook.hook }} {{ maintenance_hook.verdict }} "
    "{{ maintenance_hook.target }} {{ maintenance_hook.name in seen.stdout_lines }}' >> {{ told }}",
    "delegate_to": "localhost",
}
REFUSE = {"name": "No", "ansible.builtin.fail": {"msg": "the load balancer is away"}}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("hooks", 2) as lab:
        lab.run("host-a", GuestSpec("web", labels={"tier": "web"}, autostart=True))
        lab.run("host-a", GuestSpec("db"))
        lab.wait_ticking(["web", "db"])
        yield lab
        assert not any(report.check(lab.paths.raw, set())["totals"][key] for key in report.HURT)


def test_hooks_are_run_around_the_move_and_again_where_they_failed(lab: Lab, tmp_path: Path) -> None:
    told, out, back = tmp_path / "told", tmp_path / "out.yml", tmp_path / "back.yml"
    hooks = {"before": str(out), "after": str(back)}
    rule = {"name": "web", "when": "labels.tier == 'web'", "hooks": hooks}
    drain: dict[str, Any] = {"maintenance_hosts": "host-a", "drain_rules": [rule], "told": str(told)}
    before = traces.snapshot(lab)
    ended = plays.run(lab, "drain", drain)
    assert ended.code != 0 and "there is no file" in ended.text
    assert traces.snapshot(lab) == before

    out.write_text(yaml.safe_dump([READ, TELL, REFUSE]), encoding="utf-8")
    back.write_text(yaml.safe_dump([READ, TELL]), encoding="utf-8")
    ended = plays.run(lab, "drain", drain)
    assert ended.code != 0 and "the load balancer is away" in ended.text
    assert ended.vm("web")["reason"] == "HookPending"
    assert told.read_text().splitlines() == ["before pending host-b True"]
    assert "web" in traces.running(lab.host("host-a"))

    out.write_text(yaml.safe_dump([READ, TELL]), encoding="utf-8")
    ended = plays.run(lab, "drain", drain)
    assert ended.code == 0, ended.text
    lines = ["before pending host-b True"] * 2 + ["after moved host-b False"]
    assert told.read_text().splitlines() == lines
    assert ended.last["certificate"]
    assert traces.running(lab.host("host-a")) == []
    assert traces.running(lab.host("host-b")) == ["db", "web"]
    assert traces.autostarted(lab.host("host-b")) == ["web"]
    lab.wait_ticking(["web", "db"])

    again = plays.run(lab, "drain", drain)
    assert again.code == 0 and not again.last["changed"]
    restored = plays.run(lab, "restore", {"maintenance_hosts": "host-a", "told": str(told)})
    assert restored.code == 0, restored.text
    assert told.read_text().splitlines() == lines
    assert traces.volumes(lab.host("host-a")) == []
