"""An order, what it makes of libvirt's flags and parameters, and the outcome."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import MigrationMethod
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import migrate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import (
    OrderError,
    ended,
    parse_order,
)

ORDER: dict[str, Any] = {
    "order": "migrate",
    "uuid": "u",
    "name": "n",
    "attempt": 2,
    "node": "a",
    "target": "b",
    "target_uri": "qemu+tls://b/system",
}


def test_an_order_and_its_defaults() -> None:
    order = parse_order(ORDER)
    assert order.method is MigrationMethod.LIVE
    assert order.settings == MigrationSettings()
    assert not order.watch
    assert not order.settings.tls
    full = parse_order(
        {
            **ORDER,
            "order": "watch",
            "method": "BlockMigration",
            "disks": ["vda"],
            "settings": {"compression": ["xbzrle"], "bandwidth_mib": 7},
        }
    )
    assert full.watch
    assert full.disks == ("vda",)
    assert full.settings.compression == ("xbzrle",)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"uuid": None}, "uuid"),
        ({"attempt": "x"}, "x"),
        ({"target_uri": ""}, "target_uri"),
        ({"method": "Carry"}, "Carry"),
        ({"settings": {"speed": 1}}, "speed"),
        ({"settings": {"progress_timeout": 0}}, "progress_timeout"),
    ],
)
def test_orders_that_cannot_be_understood(change: dict[str, Any], word: str) -> None:
    with pytest.raises(OrderError, match=word):
        parse_order({**ORDER, **change})


def test_an_order_without_a_field_names_it() -> None:
    for key in ("uuid", "name", "attempt", "node", "target", "target_uri"):
        with pytest.raises(OrderError, match=key):
            parse_order({k: v for k, v in ORDER.items() if k != key})


def test_the_outcome_has_reason_plane_and_message() -> None:
    good = ended(parse_order(ORDER), None, at="b").to_dict()
    assert good["ok"]
    assert (good["reason"], good["plane"], good["message"]) == ("", "", "")
    bad = ended(parse_order(ORDER), Reason.MigrationFailed, "no", at="a").to_dict()
    assert not bad["ok"]
    assert (bad["reason"], bad["plane"], bad["message"]) == ("MigrationFailed", "data", "no")
    assert bad["attempt"] == 2


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of flags, each a bit of its own; whoever asks for UNSAFE is told so."""
    names: list[str] = []

    class Fake:
        def __getattr__(self, name: str) -> Any:
            assert "UNSAFE" not in name
            if name.startswith("VIR_MIGRATE_PARAM_"):
                return name.removeprefix("VIR_MIGRATE_PARAM_").lower()
            if name not in names:
                names.append(name)
            return 1 << names.index(name)

    monkeypatch.setattr(migrate, "libvirt", Fake())
    return names


def names_of(value: int, names: list[str]) -> set[str]:
    return {n.removeprefix("VIR_MIGRATE_") for i, n in enumerate(names) if value >> i & 1}


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({}, {"PERSIST_DEST", "UNDEFINE_SOURCE"}),
        ({"persistent": False}, set()),
        ({"persistent": False, "settings": {"tls": True}}, {"TLS"}),
        ({"persistent": False, "method": "BlockMigration"}, {"NON_SHARED_DISK"}),
        (
            {"persistent": False, "settings": {"auto_converge": True, "post_copy": True, "compression": ["zlib"]}},
            {"AUTO_CONVERGE", "POSTCOPY", "COMPRESSED"},
        ),
    ],
)
def test_flags(change: dict[str, Any], more: set[str], flags: list[str]) -> None:
    value = migrate.flags_of(parse_order({**ORDER, **change}))
    assert names_of(value, flags) == {"PEER2PEER", "LIVE", "ABORT_ON_ERROR"} | more


def test_parameters(flags: list[str]) -> None:
    order = parse_order({**ORDER, "method": "BlockMigration", "migrate_uri": "tcp://b"})
    params = migrate.params_of(order, 5, ["vda"])
    assert params == {"uri": "tcp://b", "bandwidth": 5, "migrate_disks": ["vda"]}
    assert migrate.params_of(parse_order(ORDER), 0, []) == {}
