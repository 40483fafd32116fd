"""fence_ipmilan of the package fence-agents against a simulated BMC, openipmi's ipmi_sim."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._playbook.fence import FenceError, fence

NEEDED = ("fence_ipmilan", "ipmitool", "ipmi_sim")
MISSING = [name for name in NEEDED if shutil.which(name) is None]
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not here: {', '.join(MISSING)}, of the packages fence-agents, ipmitool and openipmi"
    ),
]
PASSWORD = "s3cret-of-bmc"
# What powers the host: ipmi_sim asks it. A file called stuck is a relay that does not move.
CHASSIS = """#!/bin/sh
cd "$(dirname "$0")"
case "$2" in
get) echo "power:$(cat power)" ;;
set) test -e stuck || echo "$4" > power ;;
esac
"""
LAN = """name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
chassis_control "{folder}/chassis 0x20"
user 2 true "ann" "{password}" admin 10 none md2 md5 straight
"""
BMC = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(its folder, the agent's options)"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "power").write_text("1\n")
    (tmp_path / "chassis").write_text(CHASSIS)
    (tmp_path / "chassis").chmod(0o755)
    (tmp_path / "lan.conf").write_text(LAN.format(port=port, folder=tmp_path, password=PASSWORD))
    (tmp_path / "bmc.emu").write_text(BMC)
    argv = ["ipmi_sim", "-n", "-c", "lan.conf", "-f", "bmc.emu", "-s", "."]
    # Cipher suite 3 is what this simulator knows.
    options = {"ip": "127.0.0.1", "ipport": port, "username": "ann", "password": PASSWORD, "lanplus": True, "cipher": 3}
    with (tmp_path / "out").open("w") as out, subprocess.Popen(argv, cwd=tmp_path, stdout=out, stderr=out) as bmc:
        try:
            _answers(port)
            yield tmp_path, {**options, "power_timeout": 120, "login_timeout": 120}
        finally:
            bmc.kill()


def _answers(port: int) -> None:
    words = f"ipmitool -I lanplus -H 127.0.0.1 -p {port} -U ann -P {PASSWORD} -C 3 chassis power status".split()
    for _again in range(60):
        if subprocess.run(words, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.2)
    raise AssertionError("ipmi_sim does not answer")


def test_it_is_off_once_the_bmc_says_so(host: tuple[Path, dict[str, Any]]) -> None:
    folder, options = host
    assert fence("host-a", "fence_ipmilan", options, 300, acts=False)["powered_off"] is False
    assert (folder / "power").read_text() == "1\n"
    found = fence("host-a", "fence_ipmilan", options, 300, acts=True)
    assert found["changed"] and found["proof"]["how"] == "fence_ipmilan"
    assert (folder / "power").read_text() == "0\n"


@pytest.mark.parametrize("trouble", ["stuck", "password", "port"])
def test_a_bmc_that_does_not_do_it_is_no_proof(host: tuple[Path, dict[str, Any]], trouble: str) -> None:
    folder, options = host
    (folder / "stuck").touch()
    wrong = {
        "stuck": {"power_timeout": 3},
        "password": {"password": "another"},
        "port": {"ipport": 9, "login_timeout": 3},
    }[trouble]
    with pytest.raises(FenceError, match=r"fence_ipmilan .*Nothing was started") as said:
        fence("host-a", "fence_ipmilan", {**options, **wrong}, 300, acts=True)
    assert PASSWORD not in str(said.value) and (folder / "power").read_text() == "1\n"
