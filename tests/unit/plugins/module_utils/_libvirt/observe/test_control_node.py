"""How a guest is known for the machine that runs us."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import control_node, observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.control_node import ControlNode
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    Host,
    HostConfig,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import Observer
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.vm import unreadable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import service

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
if _spec is None or _spec.loader is None:
    raise ImportError("fakes.py is missing")
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

UUID = "11111111-2222-3333-4444-55555555555a"
MODULES = "ansible_collections.virtops.maintenance.plugins.modules"


class Guest:
    """A domain with addresses, by the source that is asked."""

    def __init__(self, addresses: dict[int, Any]) -> None:
        self.addresses = addresses
        self.asked = 0

    def autostart(self) -> int:
        return 0

    def interfaceAddresses(self, source: int, _flags: int) -> Any:  # noqa: N802
        self.asked += 1
        if source not in self.addresses:
            raise fakes.LibvirtError("not supported")
        return self.addresses[source]


def why(guest: Guest, controller: str = "") -> str:
    return ControlNode(controller).why(UUID, "ops", lambda: guest)


@pytest.fixture(autouse=True)
def from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_node, "ssh_client", lambda: "192.0.2.7")
    monkeypatch.setattr(control_node, "libvirt", fakes.Binding())


def test_by_the_uuid_of_the_controller() -> None:
    assert "VM ops is the machine that Ansible runs on" in why(Guest({}), UUID.upper())
    assert why(Guest({}), "11111111-2222-3333-4444-555555555550") == ""


def test_by_the_address_from_which_ssh_comes() -> None:
    guest = Guest({2: {"vnet0": {"addrs": [{"addr": "192.0.2.7"}]}}})
    assert "comes from 192.0.2.7, an address of VM ops" in why(guest)
    assert why(Guest({0: {"vnet0": {"addrs": None}}})) == ""
    ours = ControlNode()
    for _read in range(3):
        ours.why(UUID, "ops", lambda: guest)
    assert guest.asked == 4  # twice before, twice now


def test_where_ssh_comes_from_is_found_above_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for pid, parent, environ in (
        (30, 20, b"SUDO_USER=ann\0"),
        (20, 10, b"SSH_CONNECTION=192.0.2.7 5 192.0.2.1 22\0"),
        (10, 1, b""),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").write_bytes(environ)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) b) S {parent} 0")
    find = control_node.ssh_client
    assert find({}, str(tmp_path), 30) == "192.0.2.7"
    assert find({}, str(tmp_path), 10) == ""
    assert find({"SSH_CONNECTION": "198.51.100.1 9 x 22"}, str(tmp_path), 30) == "198.51.100.1"


def test_the_drain_sees_it_while_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Host(HostConfig("a", "qemu:///system"), lambda _uri: None)
    monkeypatch.setattr(source, "domain", lambda _uuid: Guest({}))
    monkeypatch.setattr(observe, "read_vm_facts", lambda host, _p, domain, _r: unreadable(host, domain, ""))
    for state, known in ((State.RUNNING, True), (State.SHUTOFF, False)):
        observer = Observer(source, [], "boot", "a", UUID.upper())
        vm, _answered = observer._vm(DomainNow(UUID, "ops", state, 1024), {})
        assert vm is not None and bool(vm.control_node) is known


@pytest.mark.parametrize("acts", [True, False])
def test_what_the_request_says_reaches_the_observer(acts: bool) -> None:
    own = HostConfig("a", "qemu:///system")
    request = service.Request(own, [], Policy(), Intent.DRAINED, "r", controller_uuid=UUID)
    made = service.platform_of(request, acts)
    try:
        assert made.observer._control_node.why(UUID, "ops", lambda: None)
    finally:
        made.close()


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("virt_drain", "run_slice"),
        ("virt_migration", "run_migration"),
        ("virt_preflight", "preflight"),
        ("virt_host_info", "read_host"),
    ],
)
def test_what_the_module_is_told_reaches_the_request(name: str, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a host and its preflight say what a drain would do, so they must know it too."""
    module = importlib.import_module(f"{MODULES}.{name}")
    asked: list[Any] = []

    class Done(Exception):
        """The module has asked."""

    class Fake:
        """AnsibleModule, as far as it is used before the request."""

        check_mode = _diff = False

        def __init__(self, argument_spec: dict[str, Any], **_more: Any) -> None:
            self.params = {key: spec.get("default") for key, spec in argument_spec.items()}
            self.params.update(node="a", controller_uuid=UUID)
            self.no_log_values: set[str] = set()

        def debug(self, _text: str) -> None:
            return

    def ask(request: Any, *_more: Any) -> None:
        asked.append(request)
        raise Done

    monkeypatch.setattr(module, "AnsibleModule", Fake)
    monkeypatch.setattr(module, asks, ask)
    with pytest.raises(Done):
        module.main()
    assert asked[0].controller_uuid == UUID
