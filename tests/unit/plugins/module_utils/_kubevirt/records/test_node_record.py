"""What is kept on the Node."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Instance, Records


class Refuses:
    def merge(self, _path: str, _body: dict[str, Any]) -> dict[str, Any]:
        raise KubeError(500, "denied")


def test_a_record_whose_removal_is_refused_is_written_again_whole() -> None:
    """Without its instances each VM of it would count as deleted."""
    client: Any = Refuses()
    records = Records(client, "n1")
    records.instances, records.pods = {"u1": Instance("shop", "web", "i1")}, {"shop/x": {"uid": "p"}}
    with pytest.raises(KubeError):
        records.forget()
    assert [*records.instances] == ["u1"] and [*records.pods] == ["shop/x"]
