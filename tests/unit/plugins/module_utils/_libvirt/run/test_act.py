"""Acts: what must never happen, and what comes before what."""

from __future__ import annotations

import importlib.util
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import MigrationMethod
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import with_learnt
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import PlaybookEnded
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run import engine
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.metadata import (
    group_of,
    is_marked,
    strategy_of,
    with_marks,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import migrate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import MoveOrder
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import connection
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import (
    HolderError,
    HolderGone,
    HolderSilent,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import host
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.claims import Claims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import act
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.act import Actor
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import StoreError

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

VM = "11111111-2222-3333-4444-555555555555"
CLAIM = f"resv.{VM}.96._0123456789ab.host-a"


class FakeHost:
    """A host with at most one domain and a list of volumes."""

    def __init__(self, name: str, calls: list[str], domain: Any = None) -> None:
        self.name = name
        self.calls = calls
        self._domain = domain
        self.config = SimpleNamespace(uri=f"qemu+tls://{name}/system", migrate_uri="")
        self.store = self
        self.conn = self
        self.volumes: set[str] = {f"resv.{VM}.96.host-a"} if name == "host-b" else set()
        self.contents: dict[str, bytes] = {}

    def domain(self, _uuid: str) -> Any:
        if self._domain is None:
            raise fakes.LibvirtError("no domain")
        return self._domain

    def create(self, name: str, data: bytes = b"") -> bool:
        self.contents.setdefault(name, data)
        self.volumes.add(name)
        return True

    def read(self, name: str) -> bytes:
        return self.contents[name]

    def names(self) -> list[str]:
        return sorted(self.volumes)

    def delete(self, name: str) -> bool:
        self.volumes.discard(name)
        self.calls.append(f"delete {name.split('.', maxsplit=1)[0]} on {self.name}")
        return True

    def defineXML(self, _xml: str) -> Any:  # noqa: N802 - libvirt's name
        self.calls.append(f"define on {self.name}")
        if self._domain is not None:
            self._domain.persistent = True
        return self._domain


class World:
    """An actor between host-a (source) and host-b."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.binding = fakes.Binding()
        for module in (act, connection, host, migrate):
            monkeypatch.setattr(module, "libvirt", self.binding)
        self.calls: list[str] = []
        self.orders: list[dict[str, Any]] = []
        self.definitions: dict[str, str] = {}
        self.record = NodeRecord("host-a", "run-1", requester="ops", reason="patch")
        self.record.vms[VM] = VMRecord(VM, "web", 96, autostart=True)

    def domain(self, where: str, **more: Any) -> Any:
        return fakes.Domain(self.binding, self.calls, where, **more)

    def actor(self, here: Any, there: Any) -> Actor:
        source = FakeHost("host-a", self.calls, here)
        peer = FakeHost("host-b", self.calls, there)

        def send(order: dict[str, Any]) -> None:
            self.calls.append(f"order {order['order']}")
            self.orders.append(order)

        return Actor(
            source,  # type: ignore[arg-type]
            {"host-b": peer},  # type: ignore[dict-item]
            self.claims(source, peer),
            send,
            lambda _record: self.definitions,
            lambda: "now",
            lambda _uuid: ("vda",),
        )

    def claims(self, source: FakeHost, peer: FakeHost) -> Claims:
        """One was granted, and its slot stands."""
        source.volumes.add(f"slot.{VM}.host-a")
        made = Claims({"host-a": source, "host-b": peer}, "host-a")  # type: ignore[dict-item]
        made._names[VM] = CLAIM
        return made

    def action(self, do: Do, **more: Any) -> Action:
        return Action(do, "host-a", VM, "web", "host-b", memory_mib=96, **more)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_the_mark_is_written_before_the_order_and_to_both_definitions(world: World) -> None:
    domain = world.domain("host-a")
    actor = world.actor(domain, None)
    settings = MigrationSettings(bandwidth_mib=7)
    assert actor.apply(world.action(Do.MIGRATE, attempt=2, settings=settings), world.record) is None
    assert world.calls == ["metadata on host-a live=True config=True", "order migrate"]
    assert is_marked(domain.metadata(0, ""))
    order = world.orders[0]
    assert order["claim"] == CLAIM
    assert (order["attempt"], order["settings"]["bandwidth_mib"], order["disks"]) == (2, 7, ["vda"])
    assert order["target_uri"] == "qemu+tls://host-b/system"


def test_an_order_has_what_was_learnt_of_a_vm_and_of_those_of_its_rule(world: World) -> None:
    """The plan of what is left goes by the same."""
    learnt = Attempt(1, "host-b", "", 0.0, "boot", writes=float(180 << 20))
    world.record.vms["other"] = VMRecord("other", "other", decided_by="rule db", attempts=[learnt])
    for decided_by, expected in (("rule web", 0), ("default", 0), ("rule db", 180 << 20)):
        world.record.vms[VM].decided_by = decided_by
        world.actor(world.domain("host-a"), None).apply(world.action(Do.MIGRATE, attempt=2), world.record)
        assert (world.orders[-1]["writes"], world.orders[-1]["may_write"]) == (0, expected)
    seen = observation.Observation(
        {}, {VM: observation.VM(VM, "web", "host-a"), "alone": observation.VM("alone", "alone", "host-a")}
    )
    found = with_learnt(seen, world.record).vms
    assert [found[uuid].document.get("dirty_rate") for uuid in (VM, "alone")] == [180.0, None]


def test_an_order_names_the_run_of_its_attempt(world: World) -> None:
    """A later run watches the attempt of an earlier one: its outcome is still that attempt's."""
    earlier = Attempt(1, "host-b", "", 0.0, "boot", run_id="run-0")
    world.record.vms[VM].attempts.append(earlier)
    actor = world.actor(world.domain("host-a"), None)
    actor.apply(world.action(Do.WATCH, attempt=1), world.record)
    actor.apply(world.action(Do.MIGRATE, attempt=2), world.record)
    assert [order["run_id"] for order in world.orders] == ["run-0", "run-1"]


@pytest.mark.parametrize(("run", "goes"), [("run-1", True), ("run-of-others", False)])
def test_only_our_own_cordon_is_taken_away(world: World, run: str, goes: bool) -> None:
    """Of two that cordon at once the first stands, and it is that one's."""
    actor = world.actor(None, None)
    world.record.runs.append("run-1")
    actor._source.store.create("cordon", run.encode())
    actor.apply(world.action(Do.CORDON), world.record)
    assert actor.apply(world.action(Do.UNCORDON), world.record) is None
    assert ("delete cordon on host-a" in world.calls) == goes


def test_a_save_is_withdrawn_by_the_holder_that_has_it(world: World) -> None:
    world.actor(None, None).apply(world.action(Do.UNSAVE), world.record)
    assert world.orders == [{"order": "unsave", "uuid": VM, "name": "web"}]


@pytest.mark.parametrize(("adopted", "run_id"), [(False, "run-0"), (True, "")])
def test_an_abort_names_our_attempt_or_means_whatever_is_under_way(world: World, adopted: bool, run_id: str) -> None:
    attempt = Attempt(1, "host-b", "", 0.0, "boot", run_id="run-0", adopted=adopted)
    world.record.vms[VM].attempts.append(attempt)
    world.actor(world.domain("host-a"), None).apply(world.action(Do.ABORT, attempt=1), world.record)
    assert [(o["order"], o["run_id"], o["attempt"]) for o in world.orders] == [("abort", run_id, 1)]


def test_a_watch_order_has_the_settings_or_says_that_there_are_none(world: World) -> None:
    actor = world.actor(world.domain("host-a"), None)
    for settings in (MigrationSettings(on_timeout="pause"), None):
        actor.apply(world.action(Do.WATCH, attempt=1, settings=settings), world.record)
    assert world.orders[0]["settings"]["on_timeout"] == "pause"
    assert world.orders[1]["settings"] is None


def test_every_action_of_the_core_is_known(world: World) -> None:
    """FORGET is done by the platform, which has the record."""
    assert set(world.actor(None, None)._acts) == set(Do) - {Do.FORGET}


def test_a_vm_with_an_owner_of_its_own_is_marked(world: World) -> None:
    domain = world.domain("host-a")
    assert world.actor(domain, None).apply(world.action(Do.MARK), world.record) is None
    assert is_marked(domain.live)
    assert is_marked(domain.config)


@pytest.mark.parametrize("ends", [Do.UNMARK, Do.FINISH])
def test_what_is_declared_in_one_place_only_stays_so(world: World, ends: Do) -> None:
    """The declaration that holds from the next start on survives an evacuation."""
    live = "<vm><evictionStrategy>LiveMigrate</evictionStrategy></vm>"
    config = live.replace("LiveMigrate", "None").replace("</vm>", "<antiAffinityGroup>db</antiAffinityGroup></vm>")
    domain = world.domain("host-a", metadata=live, config=config)
    actor = world.actor(domain, domain)
    for do in (Do.MARK, ends):
        assert actor.apply(world.action(do), world.record) is None
        assert is_marked(domain.config) is is_marked(domain.live) is (do is Do.MARK)
    assert (strategy_of(domain.live), group_of(domain.live)) == ("LiveMigrate", None)
    assert (strategy_of(domain.config), group_of(domain.config)) == ("None", "db")


def test_without_a_mark_nothing_is_written(world: World) -> None:
    actor = world.actor(world.domain("host-a"), None)
    assert actor.apply(world.action(Do.UNMARK), world.record) is None
    assert world.calls == []


def test_arrival_is_finished_with_autostart_and_without_marks(world: World) -> None:
    there = world.domain("host-b", metadata="<vm><evacuationNodeName>host-a</evacuationNodeName></vm>")
    assert world.actor(None, there).apply(world.action(Do.FINISH), world.record) is None
    assert "autostart 1 on host-b" in world.calls
    assert not is_marked(there.metadata(0, ""))


def test_the_source_is_cleaned_only_when_the_vm_is_defined_there(world: World) -> None:
    left = world.domain("host-a", active=False)
    finding = world.actor(left, None).apply(world.action(Do.CLEAN_SOURCE), world.record)
    assert finding is not None
    assert world.calls == []
    there = world.domain("host-b")
    assert world.actor(left, there).apply(world.action(Do.CLEAN_SOURCE), world.record) is None
    assert world.calls == ["undefine on host-a"]


def test_what_is_transient_there_is_defined_there_before_it_is_removed_here(world: World) -> None:
    left, there = world.domain("host-a", active=False), world.domain("host-b", persistent=False)
    assert world.actor(left, there).apply(world.action(Do.CLEAN_SOURCE), world.record) is None
    assert world.calls == ["define on host-b", "undefine on host-a"]


def test_on_its_way_back_it_is_defined_here_before_anything_else(world: World) -> None:
    here, there = world.domain("host-a", active=False), world.domain("host-b", active=False)
    assert world.actor(here, there).apply(world.action(Do.COLD_RETURN), world.record) is None
    assert world.calls == ["define on host-a"]


def test_what_runs_there_after_all_is_not_taken_back(world: World) -> None:
    here, there = world.domain("host-a", active=False), world.domain("host-b")
    assert world.actor(here, there).apply(world.action(Do.COLD_RETURN), world.record) is None
    assert world.calls == []


def test_what_stays_transient_there_is_not_removed_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    left, there = world.domain("host-a", active=False), world.domain("host-b", persistent=False)
    monkeypatch.setattr(FakeHost, "defineXML", lambda _host, _xml: there)
    finding = world.actor(left, there).apply(world.action(Do.CLEAN_SOURCE), world.record)
    assert finding is not None
    assert "could not be defined on host-b" in finding.message
    assert world.calls == []


def test_an_arrival_without_a_definition_gets_one(world: World) -> None:
    there = world.domain("host-b", persistent=False)
    assert world.actor(None, there).apply(world.action(Do.FINISH), world.record) is None
    assert world.calls[:2] == ["define on host-b", "autostart 1 on host-b"]


def test_a_running_domain_is_never_undefined(world: World) -> None:
    running, there = world.domain("host-a"), world.domain("host-b")
    world.actor(running, there).apply(world.action(Do.COLD_UNDEFINE), world.record)
    assert world.calls == []


@pytest.mark.parametrize("do", [Do.CLEAN_SOURCE, Do.COLD_UNDEFINE, Do.COLD_WITHDRAW])
def test_undefining_takes_no_state_along(world: World, do: Do) -> None:
    here, there = world.domain("host-a", active=False), world.domain("host-b", active=False)
    assert world.actor(here, there).apply(world.action(do), world.record) is None
    flags = here.undefined_with | there.undefined_with
    kept, binding = do is not Do.CLEAN_SOURCE, world.binding
    assert flags & binding.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
    assert flags & binding.VIR_DOMAIN_UNDEFINE_KEEP_TPM
    assert not flags & binding.VIR_DOMAIN_UNDEFINE_NVRAM
    assert not flags & binding.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    assert not flags & binding.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE or not kept


@pytest.mark.parametrize("do", [Do.SHUTDOWN, Do.FORCE_OFF])
def test_a_transient_vm_is_stopped_only_with_its_definition_written_down(world: World, do: Do) -> None:
    world.record.vms[VM].persistent = False
    actor = world.actor(world.domain("host-a"), None)
    finding = actor.apply(world.action(do), world.record)
    assert finding is not None
    assert finding.reason is Reason.StopFailed
    assert "definition" in finding.message
    assert world.calls == []
    world.definitions[VM] = "<domain/>"
    assert actor.apply(world.action(do), world.record) is None
    assert len(world.calls) == 1


def test_a_save_is_the_holders(world: World) -> None:
    """The call takes minutes; what it comes to, the holder tells."""
    actor = world.actor(world.domain("host-a"), None)
    assert actor.apply(world.action(Do.SAVE), world.record) is None
    assert world.orders == [{"order": "save", "uuid": VM, "name": "web"}]
    off = world.actor(world.domain("host-a", active=False), None)
    assert off.apply(world.action(Do.SAVE), world.record) is None
    assert len(world.orders) == 1


def test_slot_first_then_reservation(world: World) -> None:
    world.actor(None, None).apply(world.action(Do.RELEASE), world.record)
    assert world.calls == ["delete slot on host-a", "delete resv on host-b"]


def test_a_claim_that_no_record_remembers_is_given_back(world: World) -> None:
    """Its memory is not known; the claims of others and for other VMs stay."""
    others = {f"resv.{VM}.96.host-c", f"resv.{VM[::-1]}.96.host-a", "cordon"}
    here, there = FakeHost("host-a", world.calls), FakeHost("host-b", world.calls)
    here.volumes = {f"slot.{VM}.host-a", f"slot.{VM}.host-c"}
    there.volumes = {CLAIM, f"resv.{VM}.96.host-a", f"resv.{VM}.128.host-a", *others}
    hosts: Any = {"host-a": here, "host-b": there}
    action = Action(Do.RELEASE, "host-a", VM, target="host-b", memory_mib=0)
    Claims(hosts, "host-a", "host-a").release(action)
    assert there.volumes == others
    assert here.volumes == {f"slot.{VM}.host-c"}


@pytest.mark.parametrize(
    ("error", "words"), [(HolderError("it is under way already"), "under way"), (StoreError("torn"), "torn")]
)
def test_what_the_holder_or_the_store_refuses_is_a_finding(world: World, error: Exception, words: str) -> None:
    actor = world.actor(world.domain("host-a"), None)

    def refuse(_order: dict[str, Any]) -> None:
        raise error

    actor._send = refuse
    finding = actor.apply(world.action(Do.MIGRATE, attempt=1), world.record)
    assert finding is not None
    assert finding.reason is Reason.MigrationFailed
    assert words in finding.message


@pytest.mark.parametrize("error", [HolderSilent("no answer"), HolderGone("it has ended")])
@pytest.mark.parametrize("sent", [True, False])
def test_a_shutdown_that_was_sent_and_not_answered_may_have_been_asked_for(
    world: World, error: HolderGone, sent: bool
) -> None:
    """The order may lie in its socket. A guest that goes off for it is ours to start again."""
    error.sent = sent
    actor = world.actor(world.domain("host-a"), None)

    def refuse(_order: dict[str, Any]) -> None:
        raise error

    actor._send = refuse
    finding = actor.apply(world.action(Do.SHUTDOWN), world.record)
    assert finding is not None
    assert (finding.reason in engine._PERHAPS_DONE) is sent


def test_what_libvirt_refuses_is_a_typed_reason(world: World) -> None:
    finding = world.actor(None, None).apply(world.action(Do.START), world.record)
    assert finding is not None
    assert finding.reason is Reason.CannotStart


def order(**changed: Any) -> MoveOrder:
    base: dict[str, Any] = {
        "uuid": VM,
        "name": "web",
        "attempt": 1,
        "node": "host-a",
        "target": "host-b",
        "target_uri": "qemu+tls://host-b/system",
    }
    return MoveOrder(**base | changed)


@pytest.mark.parametrize("method", list(MigrationMethod))
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    ("more", "flag"), [({"post_copy": True}, "POSTCOPY"), ({"parallel_connections": 2}, "PARALLEL")]
)
def test_the_flags_are_live_peer_to_peer_and_never_unsafe(
    world: World, method: MigrationMethod, persistent: bool, more: dict[str, Any], flag: str
) -> None:
    settings = MigrationSettings(auto_converge=True, **more)
    flags = migrate.flags_of(order(method=method, persistent=persistent, settings=settings))
    binding = world.binding
    for wanted in ("LIVE", "PEER2PEER", "AUTO_CONVERGE", flag):
        assert flags & getattr(binding, f"VIR_MIGRATE_{wanted}"), wanted
    assert not flags & binding.VIR_MIGRATE_UNSAFE
    assert bool(flags & binding.VIR_MIGRATE_UNDEFINE_SOURCE) is persistent
    assert bool(flags & binding.VIR_MIGRATE_PERSIST_DEST) is persistent
    assert bool(flags & binding.VIR_MIGRATE_NON_SHARED_DISK) is (method is MigrationMethod.BLOCK)


def test_the_bandwidth_holds_in_post_copy_too(world: World) -> None:
    for bandwidth, post_copy, wanted in ((7, True, 7), (0, True, None), (7, False, None)):
        settings = MigrationSettings(bandwidth_mib=bandwidth, post_copy=post_copy)
        params = migrate.params_of(order(settings=settings), 1, [])
        assert params.get(world.binding.VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY) == wanted


@pytest.mark.parametrize("do", [Do.MIGRATE, Do.FINISH, Do.CLEAN_SOURCE, Do.AUTOSTART_OFF, Do.SHUTDOWN, Do.COLD_DEFINE])
def test_before_each_write_of_an_act_it_is_asked_whether_it_is_still_to_be_done(world: World, do: Do) -> None:
    """The playbook may be killed between two of them."""

    def apply(asks: int) -> list[str]:
        here = world.domain("host-a", active=do is not Do.CLEAN_SOURCE)
        there = world.domain("host-b", persistent=False, metadata=with_marks(None, "host-a", {}))
        actor, left = world.actor(here, there), [asks]

        def ask() -> None:
            left[0] -= 1
            if left[0] < 0:
                raise PlaybookEnded

        actor.before_write = ask
        world.calls.clear()
        with pytest.raises(PlaybookEnded) if asks < len(whole) else nullcontext():
            assert actor.apply(world.action(do), world.record) is None
        return list(world.calls)

    whole: list[str] = []
    whole = apply(99)
    assert whole
    assert [apply(asks) for asks in range(len(whole))] == [whole[:asks] for asks in range(len(whole))]
