"""The operator's bad days: what the playbooks do when something is wrong, on real hosts.

What changed is read with virsh on the hosts, never taken from the playbook.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from demo import plays, traces
from integration.held import held
from integration.refused import refused

from lab import GuestSpec, Lab

pytestmark = pytest.mark.lab

Shared = Callable[[int], Lab]
ONE_HOST = "host-a and host-b are the same host (UUID "
HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a"}


@pytest.fixture(scope="module")
def _web(shared: Shared) -> Shared:
    """Two hosts; on host-a a VM that can move."""
    lab = shared(2)
    lab.run("host-a", GuestSpec("web", fill_mib=32, autostart=True))
    lab.wait_ticking(["web"])
    return shared


@pytest.fixture
def lab(_web: Shared) -> Iterator[Lab]:
    """Whole and restored before and after each test, with `web` running on host-a."""
    lab = _web(2)
    yield lab
    for host in lab.hosts:
        lab.plug(host)
        lab.unshape(host)
        lab.let_go(host)
    for host in lab.hosts.values():
        if traces.volumes(host):
            _restore(lab, host.name)
    _bring_back(lab)
    assert "web" in traces.running(lab.host("host-a"))
    assert traces.claims(lab) == traces.marked(lab) == []


def _restore(lab: Lab, host: str) -> None:
    ended = plays.run(lab, "restore", {"maintenance_hosts": host})
    assert ended.code == 0, ended.text


def _bring_back(lab: Lab) -> None:
    """By hand, with virsh: what moved to host-b."""
    source, target = lab.host("host-b"), lab.host("host-a")
    kept = traces.autostarted(source)
    for name in traces.running(source):
        options = ("--live", "--p2p", "--persistent", "--undefinesource")
        source.virsh("migrate", *options, name, "qemu+tls://host-a/system")
        if name in kept:
            target.virsh("autostart", name)


@pytest.fixture
def stuck(lab: Lab) -> Iterator[str]:
    """A VM on host-a whose network host-b does not have."""
    host = lab.host("host-a")
    host.add_network("dmz")
    lab.run("host-a", GuestSpec("stuck", networks=["dmz"]))
    lab.wait_ticking(["stuck"])
    yield "stuck"
    lab.remove_guest("stuck")
    host.virsh("net-destroy", "dmz")
    host.virsh("net-undefine", "dmz")


def test_a_wrong_uri_of_a_peer(lab: Lab) -> None:
    said = refused(lab, "drain", {"maintenance_peer_uri": "qemu+tls://no-such-host/system"})
    assert "host-b" in said
    assert "no-such-host" in said


@pytest.mark.full
def test_a_host_cannot_be_drained_to_itself(lab: Lab) -> None:
    """host-b's URI leads back to host-a: what looks like a target is the source."""
    said = refused(lab, "drain", {"maintenance_peer_uri": "qemu+tls://host-a/system"})
    assert ONE_HOST in said, said


@pytest.mark.full
@pytest.mark.parametrize("playbook", ["plan", "preflight", "rolling_maintenance", "restore"])
def test_a_host_that_is_in_the_inventory_twice(lab: Lab, playbook: str) -> None:
    """Each says it before anything is changed: these two names are one host."""
    said = refused(lab, playbook, {"maintenance_peer_uri": "qemu+tls://host-a/system", "maintenance_reboot": "never"})
    assert ONE_HOST in said, said


@pytest.mark.full
def test_a_fleet_of_one(lab: Lab) -> None:
    """Nowhere to go: the VM stays and runs, and the message says so."""
    ended = plays.run(lab, "drain", {**HERE, "maintenance_fleet": ["host-a"]})
    assert ended.code != 0
    assert traces.running(lab.host("host-a")) == ["web"]
    lab.wait_ticking(["web"])


@pytest.mark.full
def test_a_vm_that_declares_a_strategy_nobody_knows(lab: Lab) -> None:
    lab.run("host-a", GuestSpec("odd", strategy="Someday"))
    try:
        ended = plays.run(lab, "drain", HERE)
        assert ended.code != 0
        row = ended.vm("odd")
        assert (row["verdict"], row["reason"]) == ("blocked", "Undecided")
        assert "Someday" in ended.text
        assert traces.running(lab.host("host-a")) == ["odd"]
    finally:
        lab.remove_guest("odd")


@pytest.mark.full
def test_a_vm_whose_owner_does_not_come(lab: Lab) -> None:
    """It is marked for its owner and left alone; then it blocks, and the mark goes."""
    lab.run("host-a", GuestSpec("owned", strategy="External"))
    lab.wait_ticking(["owned"])
    event = ("event", "--domain", "owned", "--event", "metadata-change", "--timeout", "600")
    try:
        with ThreadPoolExecutor(1) as pool:
            marked = pool.submit(lab.host("host-a").virsh, *event)
            ended = plays.run(lab, "drain", {**HERE, "drain_external_timeout": 20})
        assert "https://virtops.example/xmlns/maintenance/1" in marked.result(), ended.text
        row = ended.vm("owned")
        assert (row["verdict"], row["reason"]) == ("blocked", "ExternalOwnerTimedOut")
        assert traces.running(lab.host("host-a")) == ["owned"]
        assert traces.marked(lab) == []
        lab.wait_ticking(["owned"])
    finally:
        lab.remove_guest("owned")


def test_a_vm_that_cannot_move(lab: Lab, stuck: str) -> None:
    ended = plays.run(lab, "drain", HERE)
    assert ended.code != 0
    row = ended.vm(stuck)
    assert (row["verdict"], row["reason"], row["plane"]) == ("blocked", "InterfaceNotLiveMigratable", "control")
    message = ended.last["msg"]
    for word in (stuck, "InterfaceNotLiveMigratable", "dmz", row["remedy"]):
        assert word in message
    # The others were moved, and this one runs where it was.
    assert traces.running(lab.host("host-a")) == [stuck]
    assert traces.running(lab.host("host-b")) == ["web"]
    lab.wait_ticking(["web", stuck])
    assert not ended.last["certificate"]


@pytest.mark.full
def test_the_preflight_of_all_hosts_shows_all_blockers_at_once(lab: Lab, stuck: str) -> None:
    """Of the hosts that answer; it changes nothing."""
    before = traces.snapshot(lab)
    ended = plays.run(lab, "preflight", {**plays.UNMEASURED})
    assert ended.code == 2, ended.text
    assert "host-a  blocked  2 VMs  1 blocker" in ended.text
    assert f"host-a  BLOCKER InterfaceNotLiveMigratable VM {stuck}: " in ended.text
    assert "\n1 of 2 hosts is not ready: host-a\n" in ended.text
    policy = {"drain_allow_stop": True, "drain_on_not_migratable": "shutdown"}
    allowed = plays.run(lab, "preflight", {**plays.UNMEASURED, **policy})
    assert allowed.code == 0, allowed.text
    assert "\nAll 2 hosts are ready\n" in allowed.text
    assert traces.snapshot(lab) == before


@pytest.mark.full
def test_the_roll_stops_at_the_first_failure(lab: Lab, stuck: str) -> None:
    boots = [host.boot_id for host in lab.hosts.values()]
    ended = plays.run(lab, "rolling_maintenance", {"maintenance_hosts": "all", "plan_must_fit": False})
    assert ended.code != 0
    said = " ".join(ended.text.split())
    assert "The roll stopped at host-a" in said
    assert "Done: none. Out: host-a. Not begun: host-b." in said
    assert [host.boot_id for host in lab.hosts.values()] == boots
    assert "host-b" not in {drain["host"] for drain in ended.drains}


@pytest.mark.parametrize("playbook", ["drain", pytest.param("restore", marks=pytest.mark.full)])
def test_check_mode_changes_nothing(lab: Lab, playbook: str) -> None:
    before = traces.snapshot(lab)
    ended = plays.run(lab, playbook, HERE, "--check", "--diff")
    assert ended.code == 0, ended.text
    assert traces.snapshot(lab) == before
    if playbook == "drain":
        row = ended.vm("web")
        assert (row["way"], row["target"]) == ("migrate", "host-b")
        assert "+VM web: running on host-b" in ended.text
        assert ended.last["changed"]
        assert not ended.last["certificate"]


@pytest.mark.full
def test_check_mode_tells_how_long_and_names_what_would_stay(lab: Lab, stuck: str) -> None:
    before = traces.snapshot(lab)
    told = {**HERE, "maintenance_link_mib_s": 40, "maintenance_speeds": {"setup": 1, "switch": 0}}
    ended = plays.run(lab, "drain", told, "--check")
    assert ended.code == 0, ended.text
    row = ended.vm("web")
    # A guest of 96 MiB that has booted has touched most of them, but it cannot be more.
    assert 1 + 20 / 40 < row["predicted_duration"] <= 1 + 96 / 40
    assert row["predicted_pause_ms"] == 40
    said = " ".join(ended.text.split())
    assert f"web would be migrated -> host-b about {row['predicted_duration']:.1f} s, pause 40 ms" in said
    assert f"host-a would not become Drained because of {stuck} (" in said
    assert ended.last["would_stay"] == [stuck]
    assert traces.snapshot(lab) == before


@pytest.mark.full
def test_check_mode_on_hosts_that_were_never_drained(lab: Lab) -> None:
    """Not even the pool for our records is made."""
    for host in lab.hosts.values():
        host.virsh("pool-destroy", traces.POOL, check=False)
        host.virsh("pool-undefine", traces.POOL, check=False)
        host.exec("rm -rf /var/lib/libvirt/virtops")
    before = traces.snapshot(lab)
    ended = plays.run(lab, "drain", HERE, "--check")
    assert ended.code == 0, ended.text
    assert traces.snapshot(lab) == before


def test_restore_leaves_the_cordon_of_others(lab: Lab) -> None:
    host = lab.host("host-a")
    # The pool is there only since the first drain.
    store = ("pool-define-as", traces.POOL, "dir", "--target", "/var/lib/libvirt/virtops")
    for words in (store, ("pool-build", traces.POOL), ("pool-start", traces.POOL)):
        host.virsh(*words, check=False)
    host.virsh("vol-create-as", traces.POOL, "cordon", "0")
    try:
        ended = plays.run(lab, "drain", HERE)
        assert ended.code == 0, ended.text
        assert ended.last["cordoned_by_others"]
        for _again in range(2):  # the second time there is nothing to restore
            back = plays.run(lab, "restore", HERE)
            said = "host-a is restored, but it takes no VMs: it is still cordoned, by others"
            assert back.code == 0 and said in back.text, back.text
            assert traces.volumes(host) == ["cordon"]
    finally:
        host.virsh("vol-delete", "cordon", "--pool", traces.POOL)


@pytest.mark.full
def test_restore_where_there_is_nothing_to_restore(lab: Lab) -> None:
    before = traces.snapshot(lab)
    ended = plays.run(lab, "restore", HERE)
    assert ended.code == 0
    assert not ended.last["changed"]
    assert traces.snapshot(lab) == before


def test_drained_twice_changes_nothing(lab: Lab) -> None:
    assert plays.run(lab, "drain", HERE).last["changed"]
    assert traces.autostarted(lab.host("host-b")) == ["web"]
    again = plays.run(lab, "drain", HERE)
    assert again.code == 0
    assert not again.last["changed"]
    assert again.last["certificate"]


def test_a_running_drain_is_aborted_by_restore(lab: Lab) -> None:
    """From a second process, while the VM's migration is held."""
    host = lab.host("host-a")
    with held(lab, "host-a", ["web"], lambda: plays.Play(lab, "drain", HERE)) as drain:
        restored = plays.run(lab, "restore", HERE)
        assert restored.code == 0, restored.text
        ended = drain.wait()
    assert ended.code != 0
    assert ended.last.get("error") == "Superseded", ended.text
    assert traces.running(host) == ["web"]
    assert traces.volumes(host) == []
    assert traces.autostarted(host) == ["web"]
    lab.wait_ticking(["web"])


@pytest.mark.full
def test_a_drain_over_qemu_ssh(lab: Lab) -> None:
    uri = "qemu+ssh://root@{{ inventory_hostname }}/system"
    ended = plays.run(lab, "drain", {**HERE, "maintenance_peer_uri": uri})
    assert ended.code == 0, ended.text
    assert ended.last["certificate"]
    assert traces.running(lab.host("host-b")) == ["web"]
    lab.wait_ticking(["web"])


@pytest.mark.full
def test_memory_goes_encrypted_or_not_at_all(lab: Lab) -> None:
    """Without its certificates the target's QEMU cannot take the VM; with them it does."""
    tls = {"drain_migration": {"tls": True}, "drain_max_attempts": 1, "preflight_measure": True}
    encrypted = {**HERE, **tls}
    host = lab.host("host-b")
    host.exec("mv /etc/pki/qemu /etc/pki/qemu.away")
    try:
        told = plays.run(lab, "drain", encrypted)
        assert told.code != 0
        assert "QEMUCertificatesMissing" in told.text
        assert not told.drains
        ended = plays.run(lab, "drain", {**encrypted, "maintenance_preflight_fail_on": "nothing"})
        assert ended.code != 0
        assert "/etc/pki/qemu" in ended.vm("web")["message"]
        assert traces.running(lab.host("host-a")) == ["web"]
    finally:
        host.exec("mv /etc/pki/qemu.away /etc/pki/qemu")
    assert plays.run(lab, "drain", encrypted).code == 0
    assert traces.running(host) == ["web"]
    lab.wait_ticking(["web"])


def test_a_rule_stops_what_it_says_and_nothing_else(lab: Lab) -> None:
    """The document that rules ask is made on the host, with the host's own jmespath."""
    lab.run("host-a", GuestSpec("trial", labels={"tier": "test"}, autostart=True))
    lab.wait_ticking(["trial"])
    rules = [
        {
            "name": "test machines",
            "when": "labels.tier == 'test' && memory_mib < `128`",
            "strategy": "None",
            "allow_stop": True,
        }
    ]
    try:
        ended = plays.run(lab, "drain", {**HERE, "drain_rules": rules})
        assert ended.code == 0, ended.text
        row = ended.vm("trial")
        assert (row["verdict"], row["decided_by"]) == ("stopped", "rule test machines")
        assert [traces.running(host) for host in lab.hosts.values()] == [[], ["web"]]
        assert traces.autostarted(lab.host("host-a")) == []
        _restore(lab, "host-a")
        assert traces.running(lab.host("host-a")) == ["trial"]
        lab.wait_ticking(["trial", "web"])
    finally:
        lab.remove_guest("trial")


@pytest.mark.full
def test_the_plan_of_a_roll_changes_nothing_and_the_drain_is_told_beside_it(lab: Lab, tmp_path: Path) -> None:
    before = traces.snapshot(lab)
    told = {"maintenance_plan_file": str(tmp_path / "plan.json")}
    # The inventory has others than the fleet, too.
    planned = plays.run(lab, "plan", told, "-i", "balancer-1,")
    assert planned.code == 0, planned.text
    assert traces.snapshot(lab) == before
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [(m["name"], m["way"], m["target"]) for s in plan["steps"] for m in s["moves"]] == [
        ("web", "migrate", "host-b")
    ]
    assert sorted(host for step in plan["steps"] for host in step["hosts"]) == ["host-a", "host-b"]
    drained = plays.run(lab, "drain", {**HERE, **told})
    assert drained.code == 0, drained.text
    assert traces.running(lab.host("host-b")) == ["web"]
    assert "web: moved to host-b" in " ".join(drained.text.split())
    assert "planned: moved to host-b" in " ".join(drained.text.split())
