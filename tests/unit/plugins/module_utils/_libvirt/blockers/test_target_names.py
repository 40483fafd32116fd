"""What a domain names and the target looks up by that name: is it there, and the same one?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.target_names import (
    doubtful_names,
    missing_names,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import names
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.names import Names
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.vmxml import (
    UUID,
    disk,
    domain,
    host,
    interface,
)

BRIDGE = "<forward mode='bridge'/><bridge name='br0'/>"
VLAN = "<vlan><tag id='{}'/></vlan>"
SLOW = "<portgroup name='slow'>" + VLAN.format(42) + "</portgroup>"
OVS = "<virtualport type='openvswitch'><parameters profileid='{}'/></virtualport>"
LAN = interface("network", "network='lan'")
FILTERED = interface("network", "network='lan'", "<filterref filter='lab-f'/>")
LUKS = disk(
    kind="network",
    source="<source protocol='nbd' name='d'><host name='nas-1'/><encryption format='luks'>"
    f"<secret type='passphrase' uuid='{UUID}'/></encryption></source>",
)


class Conn:
    """A host with a network `lan`. value: what its secret's value is answered with."""

    def __init__(self, lan: str = BRIDGE, filters: tuple[str, ...] = (), value: Exception | None = None) -> None:
        self.lan, self.filters, self.value = lan, filters, value
        self.asked: list[str] = []

    def networkLookupByName(self, name: str) -> Any:  # noqa: N802 - libvirt's name
        self.asked.append(name)
        return SimpleNamespace(XMLDesc=lambda _flags: f"<network><name>{name}</name>{self.lan}</network>")

    def nwfilterLookupByName(self, name: str) -> object:  # noqa: N802
        if name not in self.filters:
            raise fakes.LibvirtError(f"no nwfilter with matching name '{name}'", 62)
        return object()

    def secretLookupByUUIDString(self, _uuid: str) -> Any:  # noqa: N802
        def value(_flags: int) -> bytes:
            if self.value is not None:
                raise self.value
            return b"sesame"

        return SimpleNamespace(value=value)


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "libvirt", fakes.Binding())


def missing(devices: str, here: Conn, there: Conn) -> list[tuple[Reason, str]]:
    found = missing_names(parse_domain(domain(devices)), Names(here), Names(there), host())
    return [(finding.reason, finding.message) for finding in found]


@pytest.mark.parametrize(
    ("here", "there", "says"),
    [
        (BRIDGE, "<forward mode='open'/><bridge name='virbr1'/>", "is the host's own (forward mode open), but here a"),
        (BRIDGE, "<bridge name='virbr1'/>", "is isolated, but here a bridge of the host"),
        ("<forward mode='nat'/>", BRIDGE, "is a bridge of the host"),
        (BRIDGE, "<forward dev='eth0' mode='bridge'><interface dev='eth0'/></forward>", "is on devices of the host"),
        ("<forward dev='eth0' mode='vepa'/>", "<forward dev='eth0' mode='private'/>", "forward mode private"),
        (BRIDGE + VLAN.format(7), BRIDGE, "has no VLAN, but here id=7"),
        (BRIDGE + VLAN.format(7), BRIDGE + VLAN.format(8), "has the VLAN id=8, but here id=7"),
        (BRIDGE + OVS.format("a"), BRIDGE + OVS.format("b"), "profileid=b, but here type=openvswitch profileid=a"),
        (BRIDGE + "<mtu size='9000'/>", BRIDGE, "has an MTU of 1500, but here 9000"),
        (BRIDGE + "<port isolated='yes'/>", BRIDGE, "does not isolate its ports"),
    ],
)
def test_a_network_of_the_same_name_that_is_another_one(here: str, there: str, says: str) -> None:
    ((reason, message),) = missing(LAN, Conn(here), Conn(there))
    assert reason is Reason.InterfaceNotLiveMigratable
    assert "'lan'" in message and "host-b" in message
    assert says in message


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (BRIDGE, BRIDGE),
        (BRIDGE, BRIDGE.replace("br0", "br1")),
        (BRIDGE, BRIDGE + SLOW),
        (BRIDGE + SLOW, BRIDGE),  # this VM names no group
        (BRIDGE, BRIDGE + "<mtu size='9000'/>"),
        ("<forward mode='nat'/><ip address='10.0.0.1'/>", "<forward/><ip address='10.0.1.1'/>"),
    ],
)
def test_what_is_the_same_network_for_the_vm(here: str, there: str) -> None:
    assert missing(LAN, Conn(here), Conn(there)) == []


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (BRIDGE, "has no port group 'slow'"),
        (BRIDGE + SLOW.replace("42", "43"), "has the VLAN id=43, but here id=42"),
        (BRIDGE + SLOW, ""),
    ],
)
def test_its_port_group(there: str, says: str) -> None:
    found = missing(interface("network", "network='lan' portgroup='slow'"), Conn(BRIDGE + SLOW), Conn(there))
    assert [says in message for _reason, message in found] == ([True] if says else [])


def test_the_group_that_a_port_gets_without_a_name() -> None:
    default = BRIDGE + SLOW.replace("name='slow'", "name='slow' default='yes'")
    assert "has no VLAN" in missing(LAN, Conn(default), Conn())[0][1]


@pytest.mark.parametrize(
    ("here", "there", "says"),
    [
        (BRIDGE, BRIDGE, ""),
        (BRIDGE, BRIDGE.replace("br0", "br1"), "is on br0 here and on br1 on host-b"),
        ("<forward mode='nat'/>", "<forward mode='nat'/>", "is internal to its host"),
        ("", "", "is internal to its host"),
    ],
)
def test_what_may_be_another_network(here: str, there: str, says: str) -> None:
    found = list(doubtful_names(parse_domain(domain(LAN)), Names(Conn(here)), Names(Conn(there)), host()))
    assert [says in text for text in found] == ([True] if says else [])


def test_a_filter_that_the_target_lacks() -> None:
    ((reason, message),) = missing(FILTERED, Conn(filters=("lab-f",)), Conn())
    assert reason is Reason.InterfaceNotLiveMigratable
    assert "'lab-f'" in message and "host-b" in message
    assert missing(FILTERED, Conn(), Conn(filters=("lab-f",))) == []


def test_a_filter_where_libvirt_has_no_driver_for_filters() -> None:
    there = Conn(filters=("lab-f",))
    there.nwfilterLookupByName = _refuse  # type: ignore[method-assign]
    ((reason, message),) = missing(FILTERED, Conn(filters=("lab-f",)), there)
    assert reason is Reason.InterfaceNotLiveMigratable
    assert "'lab-f'" in message and "host-b" in message


def _refuse(name: str) -> object:
    raise fakes.LibvirtError(f"this function is not supported: {name}", names.ERR_NO_SUPPORT)


@pytest.mark.parametrize(
    ("here", "there", "lacks"),
    [
        (None, fakes.LibvirtError("secret does not have a value", 66), True),
        (None, None, False),
        (None, fakes.LibvirtError("secret is private", 65), False),
        (None, fakes.LibvirtError("not authorised", 29), False),
    ],
)
def test_a_secret_without_a_value(here: Exception | None, there: Exception | None, lacks: bool) -> None:
    found = missing(LUKS, Conn(value=here), Conn(value=there))
    assert [reason for reason, _message in found] == ([Reason.SecretMissing] if lacks else [])
    assert all("has no value on host-b" in message for _reason, message in found)
    assert "sesame" not in str(found)


def test_a_name_is_asked_once() -> None:
    here, there = Conn(), Conn()
    lookups = Names(here), Names(there)
    for _vm in range(3):
        missing_names(parse_domain(domain(LAN)), *lookups, host())
    assert (here.asked, there.asked) == (["lan"], ["lan"])
