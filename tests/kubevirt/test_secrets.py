"""Secrets that the product is given, or meets, are nowhere in what it says, logs or writes.

Real plays at -vvvv with --diff, what they registered printed, and a log file: all of it is
searched, and so are all addresses that were asked for and the objects that we write.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from kubesim.kinds import BY_PLURAL, VMIS
from kubesim.reading import add_pod

TOKEN, METRICS, KEY = "s3cret-bearer-token", "s3cret-metrics-token", "s3cret-client-key"
USERDATA = "s3cret-cloud-init"
COPY = "kubectl.kubernetes.io/last-applied-configuration"
WRITTEN = [BY_PLURAL[n] for n in ("nodes", "events", "leases", "virtualmachineinstancemigrations")]
SECRETS = (TOKEN, METRICS, KEY, USERDATA)
RULE = {"name": "busy", "when": "dirty_rate > `1000`", "strategy": "External", "unknown": "next"}


@pytest.fixture
def secret(sim: Any, tmp_path: Path) -> dict[str, Any]:
    """Options with all of them, valid where they have to be; and a VM that has one."""
    sim.api.access.users[TOKEN] = sim.api.access.users[METRICS] = "maintenance"
    (tmp_path / "ca.pem").write_text(sim.certificates.ca, encoding="ascii")
    config = yaml.safe_load(sim.kubeconfig(tmp_path / "kubeconfig", TOKEN).read_text())
    config["users"].append({"name": "other", "user": {"client-key-data": KEY, "password": KEY}})
    sim.add_vm("vm", "n1")
    add_pod(sim, "web", "n1")
    copy = {COPY: json.dumps({"userData": USERDATA})}

    def annotate(vmi: dict[str, Any]) -> None:
        vmi["metadata"].setdefault("annotations", {}).update(copy)

    sim.edit(VMIS, "vm", annotate, "default")
    metrics = {"url": sim.metrics_url, "token": METRICS, "ca_cert": str(tmp_path / "ca.pem")}
    return {"kubeconfig": config, "metrics": metrics, "node": "n1"}


def play(folder: Path, *tasks: dict[str, Any]) -> str:
    shown = []
    for number, task in enumerate(tasks):
        name = f"told{number}"
        shown += [{**task, "register": name, "ignore_errors": True}, {"ansible.builtin.debug": {"var": name}}]
    book = folder / "secrets.yml"
    book.write_text(json.dumps([{"hosts": "n1", "connection": "local", "gather_facts": False, "tasks": shown}]))
    return str(book)


def test_no_secret_is_told_logged_or_sent(sim: Any, plays: Plays, secret: dict[str, Any], tmp_path: Path) -> None:
    plays._env |= {"ANSIBLE_LOG_PATH": str(tmp_path / "log"), "ANSIBLE_DEBUG": "0"}
    plays._env.pop("K8S_AUTH_KUBECONFIG")
    module = "virtops.maintenance.kubevirt_{}".format
    looks = {"kubeconfig": secret["kubeconfig"]}
    rules = {"rules": [RULE], "pods": {"force": True}}
    ended = plays.run(
        play(
            tmp_path,
            {module("node_info"): {k: secret[k] for k in ("kubeconfig", "metrics", "node")}},
            {module("drain"): {**secret, **rules, "slice": 20}},
            {module("drain"): {**looks, "node": "n1", "state": "active"}},
            {module("node_info"): {"host": sim.url, "api_key": TOKEN + "x", "node": "n1"}},
        ),
        "-vvvv",
        "--diff",
    )
    said = ended.stdout + (tmp_path / "log").read_text(encoding="utf-8")
    assert "Drained" in said, said[-3000:]
    assert "Traceback" not in said
    kept = "".join(json.dumps(obj) for kind in WRITTEN for obj in sim.world.store.all(kind))
    asked = " ".join(f"{call.path}?{call.query}" for call in sim.log)
    for one in SECRETS:
        assert one not in said, said[max(0, said.index(one) - 300) : said.index(one) + 100]
        assert one not in kept + asked, one
