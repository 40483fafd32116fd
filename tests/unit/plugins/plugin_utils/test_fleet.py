"""What a task that asks for the record of a roll knows of the fleet, by the inventory alone."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import Fleet


class Templar:
    @staticmethod
    def template(value: Any) -> Any:
        return value


def fleet(**variables: Any) -> Fleet:
    hosts: dict[str, dict[str, Any]] = {f"h{n}": {"maintenance_peer_uri": f"qemu+tls://h{n}/system"} for n in range(5)}
    hosts["h1"]["maintenance_uri"] = "qemu+unix:///system"
    hosts["web"] = {}
    return Fleet(Templar(), {"hostvars": hosts, "groups": {"all": list(hosts)}, **variables})


def test_the_fleet_is_who_has_a_way_for_peers_or_who_is_named() -> None:
    assert fleet().members == ["h0", "h1", "h2", "h3", "h4"]
    assert fleet(maintenance_fleet=["h3", "h1"]).members == ["h3", "h1"]
    assert fleet(maintenance_fleet=[]).quorum_hosts() == []
    with pytest.raises(AnsibleFilterError, match="maintenance_fleet is 'h1,h2': expected a list"):
        fleet(maintenance_fleet="h1,h2").members  # noqa: B018


def test_which_are_the_quorum_hosts() -> None:
    assert fleet().quorum_hosts() == ["h0", "h1", "h2"]
    assert fleet().quorum_hosts(without="h1") == ["h0", "h2", "h3"]
    assert fleet(maintenance_platform="kubevirt").quorum_hosts() == ["localhost"]
    assert fleet(maintenance_platform="kubevirt", maintenance_api_host="bastion").quorum_hosts() == ["bastion"]


def test_how_a_host_reaches_the_others() -> None:
    found = fleet().reach("h1")
    assert (found["node"], found["uri"]) == ("h1", "qemu+unix:///system")
    assert [peer["name"] for peer in found["peers"]] == ["h0", "h2", "h3", "h4"]
    assert fleet().reach("h0")["uri"] == "qemu:///system"
    assert fleet(maintenance_platform="kubevirt").reach("localhost") == {}
