"""What a drain warns of reaches the user, and nothing about how it was passed to Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PLATFORMS = {"virt_drain": "_libvirt", "kubevirt_drain": "_kubevirt"}
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
    "ansible_collections.virtops.maintenance.plugins.module_utils." + sys.argv[3] + ".run.service"
)
service.run_slice = lambda *args: {"changed": False, "warnings": ["host-c is not readable."]}
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_warning_is_left_to_the_action(name: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], "
        "contexts: [{name: c, context: {cluster: c}}], current-context: c}"
    )
    given = {"node": "n1", "kubeconfig": str(tmp_path / "kubeconfig")}
    args = given if name == "kubevirt_drain" else {}
    path = str(ROOT / "plugins" / "modules" / f"{name}.py")
    code = [sys.executable, "-c", RUN, path, json.dumps(args), PLATFORMS[name]]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "collections")}
    done = subprocess.run(code, capture_output=True, text=True, check=False, env=env)
    result = json.loads(done.stdout.splitlines()[-1])
    # Its action plugin shows them: of warnings, as of deprecations, Ansible leaves it nothing.
    assert result["warned"] == ["host-c is not readable."]
    assert not result.get("warnings") and not result.get("deprecations")
