# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode and the preflight beside it are one answer."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.plan import plan
from kubesim.kinds import NODES
from kubesim.reading import row


def quota(sim) -> None:
    meta = {"name": "tight", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})


def too_small(sim) -> None:
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["status"].update(allocatable={"memory": "1Mi", "pods": "100"}))


def no_slots(sim) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 0})


def no_virt_api(sim) -> None:
    sim.world.virt_api_down = True


def nothing(_sim) -> None:
    pass


@pytest.mark.parametrize("plant", [quota, too_small, no_slots, no_virt_api, nothing])
def test_what_the_preflight_calls_a_blocker_check_mode_does_not_promise(sim, operator, plant) -> None:
    sim.add_vm("vm", "n1")
    plant(sim)
    request = operator.request(Intent.DRAINED, "try", 5.0)
    blockers = {f["code"] for f in preflight(request, {})["findings"] if f["severity"] == "blocker"}
    found = plan(request, {})
    told = {row(found, "vm")["reason"], *(finding["reason"] for finding in found["findings"])} - {""}
    assert blockers <= told, found
    stays = found["phase"] == "Blocked" or found["would_stay"] == ["default/vm"]
    assert stays is bool(blockers) is (plant is not nothing)


def test_a_quota_is_named_in_check_mode(sim, plays) -> None:
    sim.add_vm("vm", "n1")
    sim.add_vm("other", "n2")
    quota(sim)
    done = plays.own("drain", "--check", maintenance_hosts="n1")
    text = " ".join(done.stdout.split())
    assert "would be migrated" not in text and "in total" not in text, done.stdout
    assert "QuotaExceeded" in text and "tight" in text and "n1 would not become Drained" in text, done.stdout
