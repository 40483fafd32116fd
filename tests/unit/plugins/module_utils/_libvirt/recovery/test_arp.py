"""A guest on a bridge, of the kernel's own making, is heard; one that is gone is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import Looks, judge
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import arp, look

MAC = "52:54:00:00:00:07"
# A bridge in a network namespace, and behind it another one, whose kernel answers as a guest's does.
SCRIPT = f"""
import json, subprocess, sys
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import arp

def run(*words):
    subprocess.run(words, check=True)

guest = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo made; exec sleep 60"], stdout=subprocess.PIPE)
try:
    guest.stdout.readline()
    pid = str(guest.pid)
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "link", "set", "br0", "up")
    run("ip", "link", "add", "tap0", "master", "br0", "type", "veth", "peer", "name", "eth0", "netns", pid)
    run("ip", "link", "set", "tap0", "up")
    inside = ["nsenter", "-t", pid, "-n", "ip"]
    run(*inside, "link", "set", "eth0", "address", "{MAC}", "up")
    run(*inside, "addr", "add", "192.0.2.7/24", "dev", "eth0")
    guests, at = {{"web": [("br0", "{MAC.upper()}")], "db": [("br0", "52:54:00:00:00:08")]}}, {{"{MAC}": ["192.0.2.7"]}}
    live = arp.heard(guests, at, 3.0)
    if sys.argv[1] == "gone":
        run("ip", "link", "delete", "tap0")
        live = arp.heard(guests, at, 1.0)
    print(json.dumps([live, arp.heard({{"web": [("br9", "{MAC}")]}}, at, 1.0)]))
finally:
    guest.kill()
"""


def in_namespace(what: str) -> list[object]:
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", SCRIPT, what],
        env={**os.environ, "PYTHONPATH": str(Path(arp.__file__).parents[7])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace and its frames are root's")
@pytest.mark.parametrize(("what", "heard"), [("lives", ["web (it speaks ARP on br0)"]), ("gone", [])])
def test_a_guest_answers_by_itself_and_one_that_is_gone_does_not(what: str, heard: list[str]) -> None:
    assert in_namespace(what) == [heard, None]


def test_the_addresses_are_those_that_the_host_knows(tmp_path: Path) -> None:
    file = tmp_path / "arp"
    head = "IP address       HW type     Flags       HW address            Mask     Device\n"
    file.write_text(f"{head}192.0.2.7        0x1         0x2         {MAC.upper()}     *        br0\n\n")
    assert arp.table(str(file)) == {MAC: ["192.0.2.7"]}
    assert arp.table(str(tmp_path / "none")) == {}


@pytest.mark.parametrize(("disks", "heard"), [((), ("web (it speaks)",)), (None, ("web (it speaks)",)), (None, None)])
def test_one_that_speaks_is_a_sign_of_life_whatever_its_disks_do(
    monkeypatch: pytest.MonkeyPatch, disks: tuple[str, ...] | None, heard: tuple[str, ...] | None
) -> None:
    monkeypatch.setattr(look, "answers", lambda _uri: (False, "no route"))
    monkeypatch.setattr(look, "_growing", lambda _files: disks)
    monkeypatch.setattr(arp, "heard", lambda nics, at, _seconds: heard if nics == {"web": []} and not at else None)
    view = look.look("host-b", "qemu+tls://host-a/system", look.Guests({"web": ["/shared/web"]}, {"web": []}))
    assert judge("host-a", [view], 1).looks is (Looks.CUT_OFF if heard else Looks.PROBABLY_DEAD)
    assert ("can be watched from here" in view.text) == (not heard)


def test_a_vm_s_bridges_are_those_of_this_host_s_networks() -> None:
    xml = "<domain><name>w</name><uuid>w</uuid><memory>1</memory><devices>{}</devices></domain>".format(
        f"<interface type='bridge'><mac address='{MAC.upper()}'/><source bridge='br0'/></interface>"
        f"<interface type='network'><mac address='{MAC[:-1]}8'/><source network='lan'/></interface>"
    )
    assert arp.nics(xml, {"lan": "virbr1"}) == [("br0", MAC), ("virbr1", f"{MAC[:-1]}8")]
    assert arp.nics("", {}) == []
