"""A password in an address is refused or hidden: neither the result nor the system's log has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.addresses import passwords_in
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.document import vmi_document
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.daemon import Log

PASSWORD = "s3cr%65t-of-ann"
PLAIN = "s3cret-of-ann"
SHORT = 3
ROOT = Path(__file__).resolve().parents[4]
MODULES = ROOT / "plugins" / "modules"
# Runs a module as Ansible does, and shows what it would have given to syslog or the journal.
RUN = """
import json, runpy, sys
import ansible.module_utils.basic as basic
from ansible.module_utils.common.parameters import PASS_VARS
args = json.loads(sys.argv[2])
if "inject_invocation" in PASS_VARS:  # else it is always shown
    args["_ansible_inject_invocation"] = True
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
basic._ANSIBLE_PROFILE = "legacy"
if hasattr(basic, "_logging"):  # since ansible-core 2.22
    basic._logging.log_to_system = lambda msg, log_args=None, **more: print("LOG", msg, log_args)
else:
    basic.AnsibleModule.log = lambda self, msg, log_args=None: print("LOG", msg, log_args)
runpy.run_path(sys.argv[1], run_name="__main__")
"""
URI = f"qemu+ssh://ann:{PASSWORD}@host-b/system"
GOOD = {"name": "host-b", "uri": "qemu+tls://host-b/system"}
LEAKS: list[tuple[str, dict[str, Any], str]] = [
    ("virt_drain", {"uri": URI}, "uri holds a password"),
    ("virt_drain", {"peers": [{**GOOD, "uri": URI}]}, "peers[].uri of host-b holds a password"),
    ("virt_migration", {"name": "vm", "peers": [{**GOOD, "migrate_uri": URI}]}, "migrate_uri of"),
    ("virt_migration_info", {"uri": URI}, "uri holds a password"),
    ("virt_host_info", {"uri": URI}, "uri holds a password"),
    ("virt_preflight", {"uri": URI}, "uri holds a password"),
    ("virt_eviction_strategy", {"uri": URI, "name": ["a"], "strategy": "None"}, "uri holds a"),
]


def run(code: str, module: str, given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, str(MODULES / f"{module}.py"), json.dumps(given)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "collections")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def called(module: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What is shown of a call: the host's log and the result. Since ansible-core 2.22 it is the controller that hides
    in a result what the module says is secret."""
    done = run(RUN, module, given)
    *log, last = (done.stdout + done.stderr).splitlines()
    assert any("LOG Invoked with" in line for line in log), done
    assert '"invocation"' in last
    result = json.loads(last)
    secrets = result.pop("_ansible_new_secrets", [])
    assert all(len(secret) > SHORT for secret in secrets), "to the end of the playbook every such word is hidden"
    shown = json.dumps(result)
    for secret in secrets:
        shown = shown.replace(json.dumps(secret)[1:-1], "$REDACTED$")
    return "\n".join([*log, shown]), json.loads(shown)


@pytest.mark.parametrize(("module", "given", "says"), LEAKS)
def test_a_password_in_a_uri_is_refused_without_being_shown(module: str, given: dict[str, Any], says: str) -> None:
    said, result = called(module, given)
    assert result["failed"]
    assert says in result["msg"]
    for secret in (PASSWORD, PLAIN):
        assert secret not in said


@pytest.mark.parametrize(
    ("address", "found"),
    [
        (URI, {PASSWORD, PLAIN}),
        ("https://a:b:c@h", {"b:c"}),
        ("https://a:b@c@h/", {"b@c"}),
        ("qemu:///system", set()),
        ("qemu+tls://host:16514/system", set()),
        ("qemu+ssh://root@h:22/system?keyfile=/a:b@c", set()),
        ("https://[::1]:6443", set()),
        ("", set()),
        ("a:b@c", set()),
    ],
)
def test_the_password_of_an_address(address: str, found: set[str]) -> None:
    assert passwords_in(address) == found


def test_what_the_kubevirt_modules_are_given_by_the_environment_is_hidden_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error may have it in its text."""

    params = {**dict.fromkeys(auth.AUTH_SPEC), "host": f"https://ann:{PASSWORD}@api"}
    module = SimpleNamespace(params=params, no_log_values=set())
    monkeypatch.setenv("K8S_AUTH_PROXY", "http://ann:of-the-proxy@proxy:3128")
    monkeypatch.setenv("K8S_AUTH_API_KEY", "of-the-api")
    auth_of(module)
    assert {PASSWORD, PLAIN, "of-the-proxy", "of-the-api"} == module.no_log_values


def test_what_a_fence_agent_says_is_shown_without_its_options_and_with_its_host(tmp_path: Path) -> None:
    agent = tmp_path / "fence_bed"
    agent.write_text(f"#!/bin/sh\necho host-b refuses {PLAIN}\nexit 1\n", encoding="utf-8")
    agent.chmod(0o700)
    options = {"plug": "host-b", "password": PLAIN, "lanplus": 1}
    said, result = called("maintenance_fence", {"host": "host-b", "agent": str(agent), "options": json.dumps(options)})
    assert result["msg"] == "fence_bed for host-b failed at status: host-b refuses ********. Nothing was started."
    assert PLAIN not in said


def test_options_of_a_fence_agent_that_cannot_be_read_are_not_shown() -> None:
    said, result = called("maintenance_fence", {"host": "host-b", "agent": "x", "options": f'["{PLAIN}"'})
    assert result["msg"] == "The options of the fence agent are not a dictionary as JSON. Nothing was started."
    assert PLAIN not in said


def test_the_secrets_of_a_kubeconfig_are_in_no_log() -> None:
    """Nor is a password in the address of a proxy."""
    users = [{"name": "ann", "user": {"token": PLAIN}}]
    given = {"kubeconfig": {"users": users}, "proxy": f"http://ann:{PASSWORD}@proxy", "name": "vm", "namespace": "a"}
    said, result = called("kubevirt_migration_info", given)
    assert result["failed"]
    assert (PLAIN in said, PASSWORD in said) == (False, False)


ON_KUBEVIRT = {
    "host": f"https://ann:{PASSWORD}@127.0.0.1:1",
    "api_key": PLAIN,
    "proxy": f"http://a:{PASSWORD}@127.0.0.1:1",
}


@pytest.mark.parametrize(
    ("module", "given"),
    [
        *((module, given) for module, given, _says in LEAKS),
        ("kubevirt_node_info", {**ON_KUBEVIRT, "node": "n1"}),
        ("kubevirt_drain", {**ON_KUBEVIRT, "node": "n1", "run_id": "r"}),
        ("kubevirt_migration", {**ON_KUBEVIRT, "name": "vm", "namespace": "a", "run_id": "r"}),
    ],
)
def test_a_crash_while_an_error_is_told_shows_no_secret(module: str, given: dict[str, Any]) -> None:
    """Python then prints the stack, and the text of the error itself, which nobody hides."""
    crash = (
        "def boom(*_args, **_more): raise RuntimeError('boom')\nbasic.AnsibleModule.fail_json = boom\nrunpy.run_path"
    )
    done = run(RUN.replace("runpy.run_path", crash), module, given)
    said = done.stdout + done.stderr
    assert "RuntimeError: boom" in said and "Traceback" in said, said
    assert (PASSWORD in said, PLAIN in said) == (False, False), said


def test_the_copy_that_kubectl_keeps_of_a_vm_is_not_in_its_document() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": PLAIN, "team": "db"}
    meta = {"name": "vm", "namespace": "a", "uid": "u", "annotations": annotations}
    document = vmi_document({"metadata": meta, "spec": {"domain": {}}, "status": {}}, None)
    assert document["annotations"] == {"team": "db"}


def test_the_holders_log_is_for_root_and_has_one_line_for_each_entry(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"))
    log("moved a\n2026-01-01T00:00:00 [1] ready, forged")
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert "moved a 2026" in line
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
