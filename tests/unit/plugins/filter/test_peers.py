"""The filter that makes the list of peers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.filter.peers import peers

HOSTVARS: dict[str, dict[str, Any]] = {
    "host-a": {"maintenance_peer_uri": "qemu+tls://host-a/system"},
    "host-b": {"maintenance_peer_uri": "qemu+tls://host-b/system", "maintenance_memory": "4096"},
    "host-c": {"maintenance_peer_uri": "qemu+tls://host-c/system"},
    "bare": {},
}


def test_peers_of_a_host() -> None:
    found = peers(["host-a", "host-b", "host-c"], HOSTVARS, "host-a", ["host-c", "host-b"])
    assert [(p["name"], p["roll_rank"]) for p in found] == [("host-b", 1), ("host-c", 0)]
    assert found[0]["memory"] == 4096


@pytest.mark.parametrize(("name", "words"), [("bare", "maintenance_peer_uri"), ("zz", "inventory")])
def test_a_peer_that_cannot_be_used_is_named(name: str, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        peers([name], HOSTVARS, "host-a")


@pytest.mark.parametrize("nothing", [None, "", 0])
def test_no_memory_given_is_what_libvirt_tells(nothing: object) -> None:
    hosts = {"b": {**HOSTVARS["host-b"], "maintenance_memory": nothing}}
    assert peers(["b"], hosts, "a")[0]["memory"] == 0


def test_a_memory_that_is_no_number_is_named() -> None:
    hosts = {"b": {**HOSTVARS["host-b"], "maintenance_memory": "64 GiB"}}
    with pytest.raises(AnsibleFilterError, match="maintenance_memory of b is '64 GiB'"):
        peers(["b"], hosts, "a")


def test_a_fleet_that_is_no_list_is_told() -> None:
    with pytest.raises(AnsibleFilterError, match="maintenance_fleet is 'kvm': expected a list"):
        peers("kvm", HOSTVARS, "a")
