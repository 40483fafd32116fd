"""Every error that somebody can mend ends a module with a sentence, not with a traceback."""

from __future__ import annotations

import re

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy, PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Intent,
    RecordError,
    Superseded,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import (
    HostUnreachable,
    LibvirtMissing,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import (
    HolderError,
    HolderGone,
    VMNotHere,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.migration import (
    MigrationRequest,
    run_migration,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import VolumeTorn


class libvirtError(Exception):  # noqa: N801 - libvirt's name
    def get_error_code(self) -> int:
        return 38


@pytest.mark.parametrize(
    "error",
    [
        PolicyError("no"),
        RecordError("no"),
        Superseded("no"),
        VMNotHere("no"),
        HostUnreachable("qemu:///system", "no"),
        LibvirtMissing(),
        HolderError("no"),
        HolderGone("no"),
        VolumeTorn("no"),
        ValueError("no"),
        PermissionError("no"),
        libvirtError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_it_is_told_with_its_class(error: Exception) -> None:
    with pytest.raises(Failed, match=re.escape(str(error))) as caught, as_failed():
        raise error
    assert caught.value.error == type(error).__name__


def test_what_libvirt_says_comes_with_a_hint() -> None:
    with pytest.raises(Failed, match=r"Connection refused\. Nothing listens there"), as_failed():
        raise libvirtError("Connection refused")


def test_an_error_of_ours_stays_a_traceback() -> None:
    with pytest.raises(KeyError), as_failed():
        raise KeyError("x")


def test_a_vm_without_a_name() -> None:
    own = HostConfig("host-a", "qemu:///system")
    request = MigrationRequest(own, [], Policy(), Intent.MIGRATED, "run-1", name=" ")
    with pytest.raises(PolicyError, match="name is empty"):
        run_migration(request)
