"""fence_redfish of the package fence-agents against a simulated BMC, the emulator of sushy-tools."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._playbook.fence import FenceError, fence

NEEDED = ("fence_redfish", "sushy-emulator", "openssl")
BIN = Path(__file__).resolve().parents[5] / "build" / "bmc" / "bin"
MISSING = [name for name in NEEDED if shutil.which(name, path=f"{BIN}:{os.environ['PATH']}:/usr/sbin") is None]
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"not here: {', '.join(MISSING)}, of the packages fence-agents, openssl and PyPI's sushy-tools",
    ),
]
PASSWORD = "s3cret-of-bmc"
CONF = """SUSHY_EMULATOR_FAKE_SYSTEMS = [{{"uuid": "u-a", "name": "host-a", "power_state": "On", "nics": []}}]
SUSHY_EMULATOR_STATE_DIR = "{folder}"
SUSHY_EMULATOR_AUTH_FILE = "{folder}/users"
"""
# The password as bcrypt has it.
USERS = "ann:$2b$04$H77XCeRh8LYApbG5.82qM.CfOGFugeLkF72pvG6hEK0Z0oVVdjYWa\n"
CERTIFICATE = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=bmc"
EMULATOR = "--config conf.py --fake -i 127.0.0.1 --ssl-certificate cert.pem --ssl-key key.pem -p"


@pytest.fixture
def options(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Of the agent, for a host that is on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "conf.py").write_text(CONF.format(folder=tmp_path))
    (tmp_path / "users").write_text(USERS)
    subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    given = {"ip": "127.0.0.1", "ipport": port, "username": "ann", "password": PASSWORD, "ssl_insecure": True}
    given["systems_uri"] = "/redfish/v1/Systems/u-a"
    argv = [str(shutil.which("sushy-emulator", path=f"{BIN}:{os.environ['PATH']}")), *EMULATOR.split(), str(port)]
    with (tmp_path / "out").open("w") as out, subprocess.Popen(argv, cwd=tmp_path, stdout=out, stderr=out) as bmc:
        try:
            _listens(port)
            yield {**given, "power_timeout": 120, "login_timeout": 120}
        finally:
            bmc.kill()


def _listens(port: int) -> None:
    for _again in range(150):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("sushy-emulator does not answer")


def test_it_is_off_once_the_bmc_says_so(options: dict[str, Any]) -> None:
    assert fence("host-a", "fence_redfish", options, 300, acts=False)["powered_off"] is False
    found = fence("host-a", "fence_redfish", options, 300, acts=True)
    assert found["changed"] and found["proof"]["how"] == "fence_redfish"
    assert fence("host-a", "fence_redfish", options, 300, acts=False)["powered_off"] is True


@pytest.mark.parametrize("wrong", [{"password": "another"}, {"ipport": 9}, {"systems_uri": "/redfish/v1/Systems/none"}])
def test_a_bmc_that_does_not_do_it_is_no_proof(options: dict[str, Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(FenceError, match=r"fence_redfish .*Nothing was started") as said:
        fence("host-a", "fence_redfish", {**options, **wrong}, 300, acts=True)
    assert PASSWORD not in str(said.value)
    assert fence("host-a", "fence_redfish", options, 300, acts=False)["powered_off"] is False
