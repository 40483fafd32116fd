"""The guests of the demo: one of every kind that an operator meets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab import GuestSpec, Lab

# A directory of the host in the guest: such a VM cannot migrate, but it can start elsewhere.
SHARED_FOLDER = (
    "<filesystem type='mount' accessmode='passthrough'><source dir='/var/tmp'/><target dir='share'/></filesystem>"
)


def guests() -> dict[str, list[GuestSpec]]:
    """Host -> guests, each named for what is special about it."""
    return {
        "host-a": [
            # Two of a group that must not be on one host if it can be helped.
            GuestSpec("web-1", group="web", labels={"tier": "web"}, networks=["lan"]),
            GuestSpec("cache", memory_mib=128, dirty_mib_s=8, strategy="LiveMigrate"),
            GuestSpec("db", disks=[("shared", 24), ("shared", 16)], autostart=True),
            # Cannot migrate (network only here), may be stopped: saved, and woken up again.
            GuestSpec("legacy", networks=["dmz"], strategy="LiveMigrateIfPossible"),
        ],
        "host-b": [
            GuestSpec("web-2", group="web", labels={"tier": "web"}, networks=["lan"]),
            # A local disk: copied together with the memory.
            GuestSpec("files", disks=[("local", 32)], autostart=True),
            GuestSpec("scratch", persistent=False),
            # Wants to be shut down, and started again by restore; its autostart is kept.
            GuestSpec("batch", strategy="None", autostart=True),
        ],
        "host-c": [
            GuestSpec("shop", disks=[("shared", 24)], strategy="LiveMigrateIfPossible"),
            GuestSpec("idle"),
            # Cannot migrate live: moved cold, to another host.
            GuestSpec("reports", devices_xml=SHARED_FOLDER, labels={"tier": "batch"}),
        ],
    }


# What each host's operator chose for VMs that cannot migrate.
ON_NOT_MIGRATABLE = {"host-a": "save", "host-b": "shutdown", "host-c": "cold_migrate"}


def start(lab: Lab) -> list[str]:
    """Define and start all of them, the hosts side by side; their names."""
    lab.host("host-a").add_network("dmz", autostart=True)  # there to stay over a reboot
    population = guests()

    def fill(host: str) -> None:
        for spec in population[host]:
            lab.run(host, spec)

    with ThreadPoolExecutor(len(population)) as pool:
        list(pool.map(fill, population))
    return [spec.name for specs in population.values() for spec in specs]
