"""While disks are copied their target is told so every few seconds, in a thread.

Whoever finds half a copy there later knows by the last sign whether the file is that copy still,
whatever died in the middle: the holder, its host, the target, or its libvirtd.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..._core.model.observation import MigrationMethod
from ..host.connection import LibvirtProblem, libvirt
from ..store.copied_disks import SIGN_EVERY
from ..store.volumes import StoreError
from .disks import TargetVolumes
from .links import BUSY, Links
from .order import MoveOrder


@contextmanager
def copy_signs(links: Links, order: MoveOrder) -> Iterator[None]:
    """While a migration of ours copies disks, note every SIGN_EVERY seconds on the target that these copies are being
    written. Nothing is noted for a migration that copies nothing, or that others began."""
    if order.method is not MigrationMethod.BLOCK or order.foreign or not order.target_uri:
        yield
        return
    over = threading.Event()

    def give() -> None:
        while not over.wait(SIGN_EVERY):
            # A sign that is not given makes a file unknown, and no more.
            with suppress(libvirt.libvirtError, LibvirtProblem, StoreError), links.peer(order.target_uri) as conn:
                TargetVolumes(conn, order.uuid).go_on()

    thread = threading.Thread(target=give, name=f"signs-{order.uuid}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(BUSY)  # not for ever: the end of the migration is told after this
