"""What a roll that goes well prints by Ansible's own callback: its VMs can be seen in it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.full

# Of each host, with tasks that are skipped and without blank lines. It was 107 once.
LINES = 56


def test_a_roll_that_goes_well_prints_few_lines_for_each_host(sim, plays) -> None:
    for name in ("n1", "n2", "n3"):
        sim.add_vm(f"vm-{name}", name, migrate_seconds="5")
    done = plays.own("rolling_maintenance", maintenance_reboot=False, maintenance_hosts="all")
    assert done.returncode == 0, done.stdout
    roll = done.stdout.partition("PLAY [Rolling maintenance]")[2].partition("\nPLAY ")[0]
    lines = [line for line in roll.splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith("default/vm-")]) <= 3 * LINES
