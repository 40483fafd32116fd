"""What a module warns of reaches the user, and nothing about how it was passed to Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
# Where each does its work, and as what it returns a warning.
WORK = {
    "virt_drain": ("_libvirt.run.service", "run_slice", "warned"),
    "kubevirt_drain": ("_kubevirt.run.service", "run_slice", "warned"),
    "kubevirt_recovery": ("_kubevirt.recovery.service", "recover", "warned"),
    "kubevirt_preflight": ("_kubevirt.preflight.check", "preflight", "warnings"),
    "kubevirt_fleet_info": ("_kubevirt.plan.fleet", "read_fleet", "warnings"),
}
# Runs a module as Ansible does, with a slice that found something to warn of.
RUN = """
import json, runpy, sys
from importlib import import_module
import ansible.module_utils.basic as basic
args = json.loads(sys.argv[2])
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}).encode()
basic._ANSIBLE_PROFILE = "legacy"
basic.AnsibleModule.log = lambda self, msg, log_args=None: None
service = import_module(
    "ansible_collections.virtops.maintenance.plugins.module_utils." + sys.argv[3]
)
setattr(service, sys.argv[4], lambda *args, **more: {"changed": False, "warnings": ["host-c is not readable."]})
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("name", WORK)
def test_a_warning_is_passed_on_as_ansible_wants_it(name: str, tmp_path: Path) -> None:
    where, function, key = WORK[name]
    (tmp_path / "kubeconfig").write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], "
        "contexts: [{name: c, context: {cluster: c}}], current-context: c}"
    )
    args = {"kubeconfig": str(tmp_path / "kubeconfig")} if name.startswith("kubevirt") else {}
    args |= {"node": "n1"} if name.startswith("kubevirt") and name != "kubevirt_fleet_info" else {}
    path = str(ROOT / "plugins" / "modules" / f"{name}.py")
    code = [sys.executable, "-c", RUN, path, json.dumps(args), where, function]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "collections")}
    done = subprocess.run(code, capture_output=True, text=True, check=False, env=env)
    result = json.loads(done.stdout.splitlines()[-1])
    # An action plugin that calls its module again and again shows them itself: of warnings Ansible leaves it nothing.
    assert "host-c is not readable." in json.dumps(result[key])
    assert not result.get("warnings" if key == "warned" else "warned") and not result.get("deprecations")
