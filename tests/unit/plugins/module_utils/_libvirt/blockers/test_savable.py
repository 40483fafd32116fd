"""What keeps a domain from being saved to disk."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.running import (
    Runtime,
    save_findings,
    shutdown_findings,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.vmxml import disk, domain, hostdev


def test_a_domain_that_can_be_saved() -> None:
    assert save_findings(parse_domain(domain(disk())), Runtime()) == ()


@pytest.mark.parametrize(
    ("xml", "runtime", "reason"),
    [
        (domain(), Runtime(persistent=False), Reason.TransientDomain),
        (domain(), Runtime(block_jobs=("vda",)), Reason.BlockJobRunning),
        (domain(hostdev("pci")), Runtime(), Reason.HostDeviceNotLiveMigratable),
        (domain(top="<launchSecurity type='sev'/>"), Runtime(), Reason.SEVNotLiveMigratable),
    ],
)
def test_a_domain_that_cannot_be_saved(xml: str, runtime: Runtime, reason: Reason) -> None:
    assert [f.reason for f in save_findings(parse_domain(xml), runtime)] == [reason]


def test_snapshots_do_not_keep_it_from_being_saved() -> None:
    assert save_findings(parse_domain(domain()), Runtime(snapshots=1)) == ()


@pytest.mark.parametrize("what", ["restart", "preserve", "rename-restart"])
def test_what_does_not_go_off_when_it_powers_off_is_known(what: str) -> None:
    found = shutdown_findings(parse_domain(domain(top=f"<on_poweroff>{what}</on_poweroff>")))
    assert [f.reason for f in found] == [Reason.RestartsOnPowerOff]
    assert what in found[0].message


@pytest.mark.parametrize("top", ["", "<on_poweroff>destroy</on_poweroff>"])
def test_what_goes_off_when_it_powers_off(top: str) -> None:
    assert shutdown_findings(parse_domain(domain(top=top))) == ()
