"""A name that somebody gave stays one part of a path, or the request is not sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names

ODD = ("", "..", "../../pods", "n2/../n1", "n1/status", "n1?x=y", "n1#x", "n1 ", "n1%2Fstatus", "-x")


class Sent(Exception):
    """It would be sent."""


def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    def connect(_self: Client) -> Any:
        raise Sent

    monkeypatch.setattr(Client, "_connect", connect)
    return Client({})


@pytest.mark.parametrize(
    "path",
    [
        names.node,
        names.leases,
        lambda name: names.pod("default", name),
        lambda name: names.pod(name, "pod"),
        lambda name: names.kubevirt(name, "virtualmachines", "vm"),
        lambda name: names.subresource("default", "virtualmachines", name or "..", "stop"),
    ],
)
def test_a_name_that_is_none_is_not_sent(monkeypatch: pytest.MonkeyPatch, path: Callable[[str], str]) -> None:
    asks = client(monkeypatch)
    for name in ODD:
        with pytest.raises(KubeError) as found:
            asks.request("DELETE", path(name))
        assert found.value.code == 404, name
    with pytest.raises(Sent):
        asks.get(path("node-1.example.org"))
