"""The store on real hosts: many writers at once, and volumes that were torn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.virtops.maintenance.tests.integration.on_host import PACKAGE, on
from lab import Lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(shared: Callable[[int], Lab]) -> Lab:
    """Two hosts with the store's pool; no guests."""
    lab = shared(2)
    for host in lab.hosts:
        on(lab, host, "Store(open_connection('qemu:///system')).ensure(); result = 1")
    return lab


STORE = """
import threading
stores = [Store(open_connection(uri)) for _ in range(12)]
barrier, results = threading.Barrier(12), {}
def race(call):
    def one(place):
        barrier.wait()
        got[place] = call(place, stores[place])
    got = [None] * 12
    threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    [t.start() for t in threads]; [t.join() for t in threads]
    return got
race(lambda i, s: s.ensure())
result = []
for turn in range(10):
    won = race(lambda i, s: s.create(f"claim{turn}", b"by %d" % i * 400))
    whole = stores[0].read(f"claim{turn}") == b"by %d" % won.index(True) * 400
    result.append([won.count(True), whole,
                   stores[1].delete(f"claim{turn}"), stores[2].delete(f"claim{turn}")])
race(lambda i, s: [s.write_record("record", json.dumps([i, k] * 200)) for k in range(5)])
left = [n for n in stores[0].names() if n.startswith("record.")]
result.append([len(left), len(json.loads(stores[3].read_record("record"))),
               stores[4].delete_record("record"), stores[5].read_record("record")])
"""


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu+tls://host-b/system"])
def test_store_twelve_at_once(lab: Lab, uri: str) -> None:
    *claims, record = on(lab, "host-a", STORE, uri=uri)
    assert claims == [[1, True, True, False]] * 10
    assert record[1:] == [400, True, None]
    assert record[0] >= 1


def test_store_tells_a_torn_volume(lab: Lab) -> None:
    code = """
from PACKAGE.store.volumes import VolumeMissing, VolumeTorn
conn = open_connection("qemu:///system")
store = Store(conn)
store.write_record("record", "whole")
pool = conn.storagePoolLookupByName("virtops")
xml = "<volume><name>%s</name><capacity>500</capacity></volume>"
pool.createXML(xml % "record.2", 0)  # a writer that died before it wrote
result = [store.read_record("record")]
store.delete("record.1")
for name, call in (("record", store.read_record), ("record.2", store.read), ("none", store.read)):
    try:
        call(name)
    except (VolumeMissing, VolumeTorn) as exc:
        result.append(type(exc).__name__)
result.append(store.write_record("record", "again"))
result += [store.read_record("record"), store.delete_record("record"), store.names()]
"""
    *told, names = on(lab, "host-a", code.replace("PACKAGE", PACKAGE))
    assert told == ["whole", "VolumeTorn", "VolumeTorn", "VolumeMissing", 3, "again", True]
    assert not [name for name in names if name.startswith("record")]
