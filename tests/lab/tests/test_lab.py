"""The lab itself: hosts, isolation, power, links."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import Lab, checker, names, network, procs, rawlog

pytestmark = pytest.mark.lab


def report(lab: Lab) -> dict[str, dict]:
    rawlog.wait_for_heartbeat(lab.paths.raw)
    return {guest["name"]: guest for guest in checker.check(lab.paths.raw, set())["guests"]}


@pytest.mark.full
def test_hosts_are_reached_by_ssh(lab: Lab) -> None:
    for host in lab.hosts.values():
        assert host.ssh("hostname").stdout.strip() == host.name
        assert host.ssh(["virsh", "-q", "uri"]).stdout.strip() == "qemu:///system"


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["qemu+tls", "qemu+ssh"])
def test_peers_reach_each_other(lab: Lab, scheme: str) -> None:
    for here in lab.hosts.values():
        for there in lab.hosts:
            out = here.ssh(["virsh", "-q", "-c", f"{scheme}://{there}/system", "hostname"])
            assert out.stdout.strip() == there


@pytest.mark.full
def test_up_again_changes_nothing(lab: Lab) -> None:
    before = {host.name: (host.init_pid, host.boot_id) for host in lab.hosts.values()}
    again = Lab.up(lab.paths.name)
    assert {host.name: (host.init_pid, host.boot_id) for host in again.hosts.values()} == before


@pytest.mark.full
def test_a_host_does_not_see_another(lab: Lab) -> None:
    one, two = lab.host("host-a"), lab.host("host-b")
    for folder in ("/etc", "/root", "/var/lib", "/var/log", "/var/cache", "/run", "/tmp", "/dev/shm", "/var/tmp"):
        one.exec(["touch", f"{folder}/only-a"])
        assert two.exec(["test", "-e", f"{folder}/only-a"], check=False).returncode == 1
        assert not Path(folder, "only-a").exists()
    # Nor by the way around: through the lab's own state, or another's processes.
    assert two.exec(["ls", "-A", str(lab.paths.state.parent)]).stdout == ""
    processes = two.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert one.exec("hostname").stdout.strip() == "host-a"
    assert "host-a" not in processes
    assert len([p for p in two.exec("ls /proc").stdout.split() if p.isdigit()]) < 40


@pytest.mark.full
def test_the_projects_tree_is_seen_wherever_it_lies(lab: Lab, tmp_path: Path) -> None:
    assert lab.host("host-a").exec(["test", "-f", str(names.REPO / "galaxy.yml")]).returncode == 0
    tree = tmp_path / "private" / "clone"
    tree.mkdir(parents=True)
    (tree / "galaxy.yml").write_text("here")
    script = (
        "import hostinit, os, sys\n"
        "private, path = sys.argv[1:]\n"
        "tree = os.open(path, os.O_PATH)\n"
        "hostinit.mount('tmpfs', private, 'tmpfs', 0, '')\n"
        "assert not os.path.exists(path)\n"
        "hostinit.show(tree, path)\n"
        "print(open(path + '/galaxy.yml').read())\n"
    )
    command = ["unshare", "--mount", sys.executable, "-c", script, str(tree.parent), str(tree)]
    environment = {**os.environ, "PYTHONPATH": str(names.REPO / "tests" / "lab")}
    seen = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert seen.stdout.strip() == "here"


@pytest.mark.full
def test_the_machine_is_out_of_reach(lab: Lab) -> None:
    host = lab.host("host-a")
    for path in (
        "/run/systemd",
        "/run/dbus",
        "/var/run/dbus/system_bus_socket",
        "/sys/fs/cgroup/systemd",
        "/run/virtops-lab",
    ):
        assert host.exec(["test", "-e", path], check=False).returncode == 1, path
    if Path("/proc/sysrq-trigger").exists():
        assert host.exec("stat -c %t,%T /proc/sysrq-trigger").stdout.strip() == "1,3"
    links = host.exec("ls /sys/class/net").stdout.split()
    assert sorted(links) == [network.GUEST_BRIDGE, "eth0", "lo"]
    for tool in ("/sbin/shutdown", "/sbin/reboot", "/usr/local/sbin/shutdown"):
        text = host.exec(f"head -c 300 {tool}", check=False).stdout
        assert not text or "virtops-lab-host" in text


@pytest.mark.full
def test_the_shutdown_tool_does_nothing_elsewhere(lab: Lab) -> None:
    tool = lab.paths.host("host-a") / "local-sbin" / "shutdown"
    done = subprocess.run([str(tool), "-r", "now"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (1, "not a lab host")


@pytest.mark.full
def test_reboot_by_ansible(lab: Lab) -> None:
    if importlib.util.find_spec("ansible") is None:
        pytest.skip("no ansible in this Python")
    host = lab.host("host-b")
    machine, before = names.machine_boot(), host.boot_id
    host.exec("touch /tmp/t /run/t /root/kept /var/lib/kept /etc/kept")
    done = procs.run(
        [
            sys.executable,
            "-m",
            "ansible",
            "adhoc",
            "-i",
            str(lab.paths.inventory),
            "host-b",
            "-m",
            "ansible.builtin.reboot",
            "-a",
            "reboot_timeout=60",
        ]
    )
    assert "CHANGED" in done.stdout
    assert host.boot_id not in (None, before, machine)
    assert host.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip() == host.boot_id
    assert host.exec("ls -d /tmp/t /run/t", check=False).stdout == ""
    host.exec("ls /root/kept /var/lib/kept /etc/kept")
    assert names.machine_boot() == machine


@pytest.mark.full
def test_reboot_ends_what_ran_and_autostart_brings_it_back(lab: Lab, guest) -> None:
    guest("auto", autostart=True)
    guest("manual")
    lab.announce_stop("auto")
    lab.announce_stop("manual")
    host = lab.host("host-a")
    before = host.boot_id
    host.ssh("shutdown -r now")
    assert procs.wait_for(lambda: host.boot_id not in (None, before))
    lab.wait_ticking(["auto"])
    assert lab.where("manual") == {"manual": [("host-a", "shut off")]}
    found = report(lab)
    assert (found["auto"]["verdict"], found["auto"]["running_again"]) == ("stopped", True)
    assert found["manual"]["verdict"] == "stopped"


def test_power_loss_stays_until_power_on(lab: Lab, guest) -> None:
    guest("victim", "host-c")
    host = lab.host("host-c")
    pid = host.init_pid
    lab.kill("host-c")
    assert host.init_pid is None
    assert procs.start_time(pid) is None
    assert "DOWN" in lab.status()["host-c"]
    assert procs.wait_for(lambda: report(lab)["victim"]["verdict"] == "lost")
    lab.power_on("host-c")
    assert lab.where("victim") == {"victim": [("host-c", "shut off")]}


@pytest.mark.full
def test_the_cable(lab: Lab) -> None:
    host = lab.host("host-b")
    ping = f"timeout 2 bash -c '</dev/tcp/{host.address}/22'"
    here = lab.host("host-a")
    assert procs.wait_for(lambda: here.exec(ping, check=False).returncode == 0)
    lab.unplug("host-b")
    assert here.exec(ping, check=False).returncode != 0
    lab.plug("host-b")
    assert procs.wait_for(lambda: here.exec(ping, check=False).returncode == 0)


@pytest.mark.full
@pytest.mark.parametrize("way", ["into", "out"])
def test_link_speed(lab: Lab, way: str) -> None:
    """What would go faster waits for its turn: in this direction, not in the other one."""
    host, send = lab.host("host-a"), "head -c 20000000 /dev/zero"
    lab.shape("host-a", 80 if way == "into" else 10000, 80 if way == "out" else 10000)
    try:
        if way == "out":
            host.exec(f"{send} | ssh host-b 'cat >/dev/null'")
        else:
            host.exec(f"ssh host-b '{send}' >/dev/null")
        look = ["tc", "-s", "qdisc", "show", "dev"]
        told = {
            "into": procs.run([*look, names.veth(lab.number, host.index)]).stdout,
            "out": host.exec([*look, "eth0"]).stdout,
        }
        assert "rate 80Mbit" in told[way], told
        waited = {key: int(text.partition("overlimits ")[2].split()[0]) for key, text in told.items()}
        assert waited[way] > 100 > waited["out" if way == "into" else "into"], told
    finally:
        lab.unshape("host-a")


@pytest.mark.full
@pytest.mark.parametrize("part", ["collector", "nbd", "host-a.supervisor", "host-a.init"])
def test_up_repairs_what_was_killed(lab: Lab, part: str) -> None:
    pid = procs.alive(lab.paths.records / part)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert procs.wait_for(lambda: procs.start_time(pid) is None)
    if part.startswith("host-a"):  # one of the two ends with the other
        assert procs.wait_for(lambda: lab.host("host-a").supervisor_pid is None)
    Lab.up(lab.paths.name)
    assert all("DOWN" not in word for word in lab.status().values())


@pytest.mark.full
def test_libvirtd_comes_back_and_guests_run_on(lab: Lab, guest) -> None:
    guest("steady")
    host = lab.host("host-a")
    host.exec("kill -9 $(cat /run/libvirtd.pid)")
    assert procs.wait_for(host.ready)
    lab.wait_ticking(["steady"])
    assert host.virsh("domstate", "steady") == "running"
    assert report(lab)["steady"]["verdict"] == "live"


@pytest.mark.full
def test_the_collector_goes_on_where_it_was(lab: Lab, guest) -> None:
    guest("watched")
    procs.stop(lab.paths.records / "collector")
    time.sleep(1)
    Lab.up(lab.paths.name)
    lab.wait_ticking(["watched"])
    found = report(lab)["watched"]
    assert (found["verdict"], found["reasons"]) == ("live", [])


@pytest.mark.full
def test_a_rotated_serial_log_is_followed(lab: Lab, guest) -> None:
    guest("rotated")
    path = lab.paths.serial("host-a") / "rotated.log"
    time.sleep(1)
    size = path.stat().st_size
    assert procs.wait_for(lambda: path.stat().st_size != size, pause=0.001)
    time.sleep(0.02)  # half way between two ticks
    path.write_bytes(b"")  # the guest's QEMU has it open to append
    lab.wait_ticking(["rotated"])
    assert report(lab)["rotated"]["verdict"] == "live"
