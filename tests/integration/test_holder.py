"""The holder on real hosts: moves, aborts, is killed, is adopted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.integration.held import SLOW
from ansible_collections.virtops.maintenance.tests.integration.on_host import on
from lab import GuestSpec, Lab, network
from lab.procs import wait_for

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(shared: Callable[[int], Lab]) -> Lab:
    return shared(2)


@pytest.fixture
def guest(lab: Lab) -> Iterator[Callable[..., dict[str, Any]]]:
    """A function that starts a guest on host-a; gives the order that moves it to host-b."""
    made: list[str] = []

    def make(name: str, **fields: Any) -> dict[str, Any]:
        spec = GuestSpec(name, **fields)
        made.append(name)
        lab.run("host-a", spec)
        lab.wait_ticking([name])
        return {
            "order": "migrate",
            "uuid": lab.host("host-a").virsh("domuuid", name),
            "name": name,
            "attempt": 1,
            "node": "host-a",
            "target": "host-b",
            "target_uri": "qemu+tls://host-b/system",
            "persistent": spec.persistent,
            "autostart": spec.autostart,
            "memory_mib": spec.memory_mib,
            "run_id": "test",
        }

    yield make
    for host in lab.hosts.values():
        lab.unshape(host)
        lab.let_go(host)
    for name in made:
        lab.remove_guest(name)


def outcome(lab: Lab, order: dict[str, Any]) -> dict[str, Any]:
    """What stands in the source's store."""
    return on(
        lab,
        "host-a",
        "result = json.loads(Store(open_connection('qemu:///system'))"
        '.read(f\'outcome.{order["uuid"]}.{order["attempt"]}\'))',
        order=order,
    )


MOVE = """
client = ensure_holder()
client.subscribe()  # what is refused is over at once
for order in orders:
    client.order(order)
result = list(until(client, [o["uuid"] for o in orders]).values())
"""


def test_moves_and_writes_the_outcome(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    """With every setting that QEMU can be given, in two migrations: not all go together."""
    one = {"auto_converge": True, "post_copy": True, "compression": ["xbzrle"]}
    two = {"parallel_connections": 2, "bandwidth_mib": 200, "max_downtime_ms": 400}
    orders = [
        {**guest("keeps", autostart=True), "settings": one},
        {**guest("passing", persistent=False), "settings": two},
    ]
    told = on(lab, "host-a", MOVE, orders=orders)
    assert sorted(o["ok"] for o in told) == [True, True], told
    stands = outcome(lab, orders[0])
    assert stands["ok"]
    assert stands["at"] == "host-b"
    assert stands["processed"] > 10_000_000
    assert stands["downtime_ms"] is not None
    assert lab.where("keeps") == {"keeps": [("host-b", "running")]}
    assert lab.where("passing") == {"passing": [("host-b", "running")]}
    info = lab.host("host-b").virsh("dominfo", "keeps")
    assert "Autostart:      enable" in info
    assert "Persistent:     no" in lab.host("host-b").virsh("dominfo", "passing")
    lab.wait_ticking(["keeps", "passing"])


def test_the_unsafe_flag_is_never_set_and_the_refusal_told(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    order = guest("local", disks=[("local", 16)])
    told = on(lab, "host-a", MOVE, orders=[order])[0]
    assert not told["ok"]
    assert told["reason"] == "MigrationFailed"
    assert told["at"] == "host-a"
    assert "nsafe" in told["message"]


def test_a_local_disk_is_copied_and_nothing_is_left_when_that_fails(
    lab: Lab, guest: Callable[..., dict[str, Any]]
) -> None:
    order = {**guest("copied", disks=[("local", 16)]), "method": "BlockMigration"}
    target = lab.host("host-b")
    wrong = {**order, "migrate_uri": "tcp://10.255.255.1"}
    wrong["migrate_uri"] = "tcp://127.0.0.1:1"  # nobody listens: the call fails after the disks
    told = on(lab, "host-a", MOVE, orders=[wrong])[0]
    assert not told["ok"]
    assert "copied-vda" not in target.virsh("vol-list", "default")
    assert "made." not in target.virsh("vol-list", "virtops")
    told = on(lab, "host-a", MOVE, orders=[{**order, "attempt": 2}])[0]
    assert told["ok"], told["message"]
    assert "copied-vda" in target.virsh("vol-list", "default")
    assert "made." not in target.virsh("vol-list", "virtops")
    lab.wait_ticking(["copied"])


def test_a_strangers_file_is_not_written_over(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    order = {**guest("clash", disks=[("local", 16)]), "method": "BlockMigration"}
    lab.host("host-b").virsh("vol-create-as", "default", "clash-vda.qcow2", "1M")
    try:
        told = on(lab, "host-a", MOVE, orders=[order])[0]
        assert told["reason"] == "DisksNotLiveMigratable"
        assert "clash-vda.qcow2" in lab.host("host-b").virsh("vol-list", "default")
    finally:
        lab.host("host-b").virsh("vol-delete", "clash-vda.qcow2", "default")


@pytest.mark.full
def test_what_a_killed_holder_did_not_note_is_noted_later(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    """Killed as the VM left: the file that stays. Killed as it made a volume: that volume."""
    there = {**guest("orphan", disks=[("local", 16)]), "method": "BlockMigration"}
    back = {**there, "node": "host-b", "target": "host-a", "target_uri": "qemu+tls://host-a/system"}
    file = lab.host("host-a").virsh("vol-path", "orphan-vda.qcow2", "default").strip()
    notes = {"uuid": there["uuid"], "path": file}
    on(
        lab,
        "host-b",
        "conn = open_connection('qemu:///system')\n"
        "copied_disks.write(Store(conn), uuid, {path: copied_disks.NEW})\n"
        "pool = conn.storagePoolLookupByName('default')\n"
        "pool.createXML('<volume><name>orphan-vda.qcow2</name><capacity unit=\"MiB\">16</capacity>'"
        "'<target><format type=\"qcow2\"/></target></volume>', 0)\n"
        "result = 0",
        **notes,
    )
    told = on(lab, "host-a", MOVE, orders=[there])[0]
    assert told["ok"], told["message"]
    unnoted = "conn = open_connection('qemu:///system')\ncopied_disks.note_copies_left(conn, uuid, [path])\nresult = 0"
    on(lab, "host-a", unnoted, **notes)
    told = on(lab, "host-b", MOVE, orders=[back])[0]
    assert told["reason"] == "DisksNotLiveMigratable", told
    stamp = "copied_disks.stamp_copies_left(open_connection('qemu:///system'), uuid)\nresult = 0"
    on(lab, "host-a", stamp, **notes)
    told = on(lab, "host-b", MOVE, orders=[{**back, "attempt": 2}])[0]
    assert told["ok"], told["message"]
    lab.wait_ticking(["orphan"])


@pytest.mark.full
def test_a_disk_that_was_left_is_replaced_unless_it_is_another_one_by_now(
    lab: Lab, guest: Callable[..., dict[str, Any]]
) -> None:
    there = {**guest("returns", disks=[("local", 16)]), "method": "BlockMigration"}
    back = {**there, "node": "host-b", "target": "host-a"}
    back["target_uri"] = "qemu+tls://host-a/system"
    for order, source in ((there, "host-a"), (back, "host-b"), (there, "host-a")):
        told = on(lab, source, MOVE, orders=[order])[0]
        assert told["ok"], told["message"]
    home, file = lab.host("host-a"), "returns-vda.qcow2"
    assert "made." in home.virsh("vol-list", "virtops")
    home.virsh("vol-delete", file, "default")
    home.virsh("vol-create-as", "default", file, "16M", "--format", "qcow2")
    look = ["stat", "-c", "%i %z", home.virsh("vol-path", file, "default")]
    stranger = home.exec(look).stdout
    told = on(lab, "host-b", MOVE, orders=[{**back, "attempt": 2}])[0]
    assert told["reason"] == "DisksNotLiveMigratable", told
    assert "changed since" in told["message"]
    assert told["at"] == "host-b"
    assert home.exec(look).stdout == stranger
    home.virsh("vol-delete", file, "default")
    told = on(lab, "host-b", MOVE, orders=[{**back, "attempt": 3}])[0]
    assert told["ok"], told["message"]
    lab.wait_ticking(["returns"])


def test_an_abort_leaves_the_vm_at_the_source(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    order = guest("stays", memory_mib=256, fill_mib=160)
    for host in lab.hosts:
        lab.shape(host, 60)
    code = """
client = ensure_holder()
client.order(order)
client.subscribe(0.1)
while not any(j["processed"] for e in client.wait(2) for j in e.get("jobs", [])):
    pass
answer = client.abort(order["uuid"])
told = until(client, [order["uuid"]])[order["uuid"]]
result = [answer, told, client.abort(order["uuid"])]
"""
    answer, told, again = on(lab, "host-a", code, order=order)
    assert answer["result"] == "aborting"
    assert told["reason"] == "AbortRequested"
    assert told["at"] == "host-a"
    assert again["result"] == "none"
    assert lab.where("stays") == {"stays": [("host-a", "running")]}
    lab.wait_ticking(["stays"])


LATE = """
import subprocess
client = ensure_holder()
client.subscribe(0.1)
client.order(order)
def job():
    return next((j for e in client.wait(2) for j in e.get("jobs", [])), {})
while not job().get("processed"):
    pass
subprocess.run(["ip", "rule", "add", *held], check=True)
while mode and job().get("mode") != mode:
    pass
if mode:
    subprocess.run(["ip", "rule", "delete", *held], check=True)
result = until(client, [order["uuid"]])[order["uuid"]]
"""


@pytest.mark.full
@pytest.mark.parametrize("measure", ["abort", "pause", "post_copy"])
def test_a_deadline_is_enforced(lab: Lab, guest: Callable[..., dict[str, Any]], measure: str) -> None:
    """Its migration is held until the policy's measure comes, which the deadline brings."""
    order = guest("late", memory_mib=256, fill_mib=64)
    order["settings"] = {"completion_timeout_per_gib": 15, "on_timeout": measure, "post_copy": measure == "post_copy"}
    for host in lab.hosts:
        lab.shape(host, 80)
    mode = {"pause": "Paused", "post_copy": "PostCopy"}.get(measure, "")
    told = on(lab, "host-a", LATE, order=order, mode=mode, held=network.HELD)
    if measure == "abort":
        assert told["reason"] == "CompletionTimeout"
        assert lab.where("late") == {"late": [("host-a", "running")]}
    else:
        assert told["ok"], told["message"]
        assert told["mode"] == mode
        assert lab.where("late") == {"late": [("host-b", "running")]}
    lab.wait_ticking(["late"])


NEVER = """
client = ensure_holder()
client.subscribe(0.5)
client.order(order)
said, end = [""], None
while end is None:
    for e in client.wait(5):
        said += [j["never"] for j in e.get("jobs", []) if j["never"]]
        end = e["outcome"] if e["event"] == "over" else end
result = [said[-1], end]
"""


@pytest.mark.full
@pytest.mark.parametrize("measure", ["abort", "post_copy", "downtime", "auto_converge"])
def test_a_guest_that_does_not_converge_is_told(lab: Lab, guest: Callable[..., dict[str, Any]], measure: str) -> None:
    """It writes all of 64 MiB in less time than the link carries them.

    QEMU slows a guest down to 1 % of its processor and no more. Where it emulates the processor, a guest that only
    writes still writes more in that than 120 Mbit/s carry: it reached 99 %, and had not moved in 300 s. So for
    auto-converge the link has four times that, and the guest writes as much more.
    """
    times = 4 if measure == "auto_converge" else 1
    order = guest("busy", memory_mib=192, fill_mib=32, dirty_mib_s=60 * times, dirty_region_mib=64)
    order["settings"] = {
        "completion_timeout_per_gib": 60,
        "progress_timeout": 30,
        **{
            "abort": {"on_timeout": "abort"},
            "post_copy": {"on_timeout": "post_copy", "post_copy": True},
            "downtime": {"max_downtime_ms": 9000},
            "auto_converge": {"auto_converge": True, "completion_timeout_per_gib": 300, "progress_timeout": 300},
        }[measure],
    }
    for host in lab.hosts:
        lab.shape(host, 120 * times)
    said, told = on(lab, "host-a", NEVER, order=order)
    steps = [step.rpartition(" after ")[0] or step for step in told["steps"]]
    if measure in ("downtime", "auto_converge"):
        assert (told["ok"], told["mode"], told["at"]) == (True, "PreCopy", "host-b"), told
        assert steps == ["a pause of 9.0 s allowed"] if measure == "downtime" else "auto-converge up to" in steps[0]
        return
    assert "the link carries 1" in said and "0.3 s are allowed" in said
    assert steps == ["aborted" if measure == "abort" else "post-copy"]
    if measure == "abort":
        assert (told["reason"], told["at"]) == ("NotConverging", "host-a"), told
        assert said.partition(":")[0].partition(" MiB")[0] in told["message"]
    else:
        assert (told["ok"], told["mode"], told["at"]) == (True, "PostCopy", "host-b"), told
    lab.wait_ticking(["busy"])


@pytest.mark.full
def test_killed_holder_is_followed_by_one_that_watches(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    orders = [guest(f"orphan{i}", memory_mib=192, fill_mib=100) for i in range(3)]
    for host in lab.hosts:
        lab.shape(host, 200)
    start = """
import os, signal, subprocess
client = ensure_holder()
client.subscribe(0.1)
for order in orders:
    client.order(order)
seen = {}
while sum(bool(v) for v in seen.values()) < 3:
    for event in client.wait(2):
        seen.update({j["uuid"]: j["processed"] for j in event.get("jobs", [])})
subprocess.run(["ip", "rule", "add", *held], check=True)
os.kill(client._ask({"order": "status"})["pid"], signal.SIGKILL)
while HolderClient.connect() is not None:
    time.sleep(0.01)
result = client.status()
"""
    gone = on(lab, "host-a", start, orders=orders, held=network.HELD)
    assert gone == []
    # With settings: ours to carry on. The bandwidths that the killed one set are still in force.
    watches = [{**order, "order": "watch", "settings": {}} for order in orders]
    lab.let_go("host-a")
    told = on(lab, "host-a", MOVE, orders=watches)
    assert len(told) == 3
    assert all(o["ok"] for o in told), told
    assert all(outcome(lab, order)["ok"] for order in orders)
    names = [order["name"] for order in orders]
    assert all(lab.where(name) == {name: [("host-b", "running")]} for name in names)
    lab.wait_ticking(names)


@pytest.mark.full
@pytest.mark.parametrize("late", [False, True])
def test_a_vm_that_a_killed_holder_suspended_runs_on(
    lab: Lab, guest: Callable[..., dict[str, Any]], late: bool
) -> None:
    """`late`: the suspend came when its migration was over, and libvirt does not undo it."""
    order = guest("asleep", memory_mib=256, fill_mib=128, dirty_mib_s=30, dirty_region_mib=48)
    order["settings"] = {"completion_timeout_per_gib": 15, "on_timeout": "pause"}
    for host in lab.hosts:
        lab.shape(host, 20)
    source = lab.host("host-a")
    pid = on(
        lab, "host-a", "c = ensure_holder(); c.order(order); result = c._ask({'order': 'status'})['pid']", order=order
    )
    assert wait_for(lambda: source.virsh("domstate", "asleep") == "paused")
    source.exec(f"kill -KILL {pid}")
    source.virsh("domjobabort", "asleep")
    assert wait_for(lambda: "None" in source.virsh("domjobinfo", "asleep"))
    if late:
        source.virsh("suspend", "asleep")
    watch = {**order, "order": "watch", "settings": {}}
    told = on(lab, "host-a", MOVE, orders=[watch])[0]
    assert (told["at"], told["paused"]) == ("host-a", False), told
    assert lab.where("asleep") == {"asleep": [("host-a", "running")]}
    lab.wait_ticking(["asleep"])


@pytest.mark.full
def test_a_migrate_order_for_a_job_under_way_adopts_it(lab: Lab, guest: Callable[..., dict[str, Any]]) -> None:
    order = guest("adopted", memory_mib=192, fill_mib=100)
    lab.shape("host-a", SLOW)
    source = lab.host("host-a")
    source.exec(
        "setsid virsh -q migrate --live --p2p --persistent --undefinesource adopted "
        "qemu+tls://host-b/system >/dev/null 2>&1 </dev/null &"
    )
    assert wait_for(lambda: lab.moves("host-a", "adopted"))
    lab.hold("host-a")
    lab.unshape("host-a")
    code = """
import subprocess
client = ensure_holder()
client.subscribe()
client.order(order)
subprocess.run(["ip", "rule", "delete", *held], check=True)
result = until(client, [order["uuid"]])[order["uuid"]]
"""
    told = on(lab, "host-a", code, order=order, held=network.HELD)
    assert told["ok"], told["message"]


def test_one_holder_a_host_however_many_start_it(lab: Lab) -> None:
    code = """
import threading
pids = []
def one():
    pids.append(ensure_holder()._ask({"order": "status"})["pid"])
threads = [threading.Thread(target=one) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
result = pids
"""
    pids = on(lab, "host-a", code)
    assert len(pids) == 8
    assert len(set(pids)) == 1


@pytest.mark.full
def test_it_ends_when_there_is_nothing_to_do(lab: Lab) -> None:
    on(lab, "host-a", "ensure_holder(); result = 1")
    listed = lab.host("host-a").exec
    # Nobody connects meanwhile: a connection is work, and starts the wait anew.
    assert wait_for(lambda: "holder.sock" not in listed("ls /run/virtops").stdout.split(), pause=1)


def test_orders_that_make_no_sense_are_refused(lab: Lab) -> None:
    code = """
client, result = ensure_holder(), []
for order in ({"order": "dance"}, {"order": "migrate"}, {"order": "migrate", "uuid": 5},
              {"order": "migrate", "uuid": "u", "name": "n", "attempt": 1, "node": "a",
               "target": "b", "target_uri": "x", "settings": {"on_timeout": "explode"}}):
    try:
        client.order(order)
    except HolderError as exc:
        result.append(str(exc))
"""
    told = on(lab, "host-a", code)
    assert len(told) == 4
    assert "dance" in told[0]
    assert "explode" in told[3]
