"""A node of KubeVirt that died: what becomes of its VMs."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import Looks
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.nodes import (
    Guest,
    GuestNow,
    NodeSeen,
    Watched,
    become,
    judge_node,
    phase_of,
    why_it_stays,
)

VM = Guest("default", "vm", "uid")


def test_each_view_of_a_node_has_its_time() -> None:
    seen = NodeSeen("n1", "Unknown", 200.0, "T0", 100.0, 900.0, "boot", lease=60.0, pods=3, pods_ready=1)
    assert judge_node(seen).text.endswith(
        "Seen: its condition Ready is Unknown since T0, its kubelet renewed the Lease at 1970-01-01T00:01:00Z, its"
        " virt-handler reported at 1970-01-01T00:01:40Z, 1 of its 3 pods are Ready."
    )
    assert judge_node(NodeSeen("n1", "True", 0.0, "", 0.0, 0.0, "")).text.endswith("Seen: its condition Ready is True.")


@pytest.mark.parametrize(
    ("newest", "watched", "looks"),
    [
        (330.0, Watched(60.0, 100.0, 130.0), Looks.NOT_KNOWN),  # a virt-handler that lives may not have reported yet
        (330.0, Watched(60.0, 100.0, 141.0), Looks.PROBABLY_DEAD),  # whose nodes report, and how often, is no matter
        (345.0, Watched(), Looks.PROBABLY_DEAD),
        (900.0, Watched(60.0, 40.0, 1.0), Looks.KUBELET_DEAD),  # by a clock that is behind
        (900.0, Watched(50.0, 100.0, 1.0), Looks.NOT_READY),
        (900.0, Watched(0.0, 0.0, 1.0), Looks.PROBABLY_DEAD),  # they could not be read before
    ],
)
def test_only_a_report_that_changes_is_a_sign_of_life(newest: float, watched: Watched, looks: Looks) -> None:
    seen = NodeSeen("n1", "Unknown", 200.0, "T0", 100.0, newest, "boot", lease=60.0)
    assert judge_node(seen, watched).looks is looks


def test_what_only_looks_waits_for_nothing() -> None:
    rows = become("n1", [GuestNow(VM, waits="It is Scheduling.")], False)
    assert (phase_of(rows, acts=True), phase_of(rows, acts=False)) == ("Recovering", "Recovered")


def test_what_nothing_starts_again_is_named_with_what_to_do() -> None:
    assert why_it_stays("space", "vm", bare=False, restarts=True, strategy="Always") == ""
    assert "virtctl start vm -n space" in why_it_stays("space", "vm", bare=False, restarts=False, strategy="Manual")
    assert "kubectl delete vmi vm -n space" in why_it_stays("space", "vm", bare=False, restarts=False, strategy="Once")
    assert "Create it again" in why_it_stays("space", "vm", bare=True, restarts=True, strategy="")
