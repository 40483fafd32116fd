# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who runs KubeVirt reads of nodes and objects, never of hosts and libvirtd."""

from __future__ import annotations

import re

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons import (
    Finding,
    Reason,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.words import on_kubevirt

OF_HOSTS = re.compile(r"\bhosts?\b|libvirt|virsh|\bdomains?\b|QEMU|copies|(un)?defined\b")


@pytest.mark.parametrize("reason", Reason)
def test_no_reason_speaks_of_hosts(reason: Reason) -> None:
    told = on_kubevirt({"vms": [Finding(reason).to_dict()]})["vms"][0]
    words = f"{told['message']} {told['remedy']}".replace("host-model", "")
    assert OF_HOSTS.findall(words) == []
    assert told["reason"] == reason.value and told["message"] and told["remedy"]


def test_a_message_of_its_own_stays() -> None:
    told = on_kubevirt([Finding(Reason.VANISHED, "The VirtualMachine a/b was deleted.").to_dict()])
    assert told[0]["message"] == "The VirtualMachine a/b was deleted."
    assert "audit log" in told[0]["remedy"]
