"""The root file system of another release of Debian, for hosts that shall not run the machine's.

Made on the spot from the mirror that apt uses here: some 4 minutes, 820 MB. It is made once for all clones
of the machine, in /var/cache/virtops-lab, or in the folder that VIRTOPS_ROOTS names. No host writes to it:
what one writes outside of its own folders is gone with its next boot.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from .names import REPO, LabError
from .procs import HERE, run

# The machine's own root, whatever release that is.
OWN = "own"
RELEASES = (OWN, "trixie")
HALF_AN_HOUR = 1800
# Debian 13 has them in packages of their own, of which libvirt-daemon needs none.
DRIVERS = ("network", "storage", "secret", "nodedev", "nwfilter", "interface")
# What runs outside of the hosts: they do not need it.
OUTSIDE = {"gcc", "libc6-dev", "linux-image-cloud-amd64", "nbdkit"}

# In the host's namespaces, before its PID 1: root, the project's tree, PID 1's program. Over the root lies a layer in
# memory, so that no host changes what others have. The tree is where it is outside, /dev and /proc are still the
# machine's; hostinit.py makes the host's own of them.
PIVOT = """\
mount -t tmpfs tmpfs /mnt
mkdir /mnt/root /mnt/upper /mnt/work
cd "$1"
mount -t overlay -o lowerdir=.,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mkdir -p ".$2"
mount --bind "$2" ".$2"
mount --rbind /dev dev
mount --move /proc proc
pivot_root . mnt
umount -l /mnt
exec /usr/bin/python3 -I "$3"
"""


def first_process(release: str) -> list[str]:
    """The command that becomes PID 1 of a host of this release."""
    init = str(HERE / "hostinit.py")
    if release == OWN:
        return ["/usr/bin/python3", "-I", init]
    return ["sh", "-ec", PIVOT, "sh", str(root(release)), str(REPO), init]


def default() -> str:
    """Of hosts for which nothing else was asked: VIRTOPS_RELEASE."""
    return known(os.environ.get("VIRTOPS_RELEASE") or OWN)


def known(release: str) -> str:
    if release not in RELEASES:
        raise LabError(f"no release {release!r}; there are {', '.join(RELEASES)}")
    return release


def root(release: str) -> Path:
    """Where its root is, or will be."""
    if release == OWN:
        return Path("/")
    return Path(os.environ.get("VIRTOPS_ROOTS") or "/var/cache/virtops-lab") / f"{release}-{_mark(release)}"


def packages() -> list[str]:
    """What a host of Debian 13 needs."""
    lines = (HERE / "packages.txt").read_text().splitlines()
    ours = {word for line in lines if (word := line.partition("#")[0].strip())}
    return sorted((ours - OUTSIDE) | {f"libvirt-daemon-driver-{name}" for name in DRIVERS})


def _mark(release: str) -> str:
    return hashlib.sha256(" ".join([release, *packages()]).encode()).hexdigest()[:8]


def missing(release: str) -> str:
    """Why no host of this release can be had here; empty: it can. One line."""
    if release == OWN or root(release).exists():
        return ""
    if shutil.which("mmdebstrap") is None:
        return f"release {release}: mmdebstrap is missing (package mmdebstrap)"
    mirror = _mirror()
    if not mirror:
        return f"release {release}: apt has no mirror of Debian here"
    refusal = _refusal(f"{mirror}dists/{release}/InRelease")
    return f"release {release}: {refusal}" if refusal else ""


@functools.cache
def _refusal(url: str) -> str:
    """Why the mirror does not give this file; empty: it does. Asked once: one that is silent takes its time."""
    with tempfile.TemporaryDirectory() as folder:
        asks = ["/usr/lib/apt/apt-helper", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0"]
        done = run([*asks, "download-file", url, f"{folder}/InRelease"], check=False)
    if done.returncode == 0:
        return ""
    told = next((line for line in done.stderr.splitlines() if url in line), done.stderr.strip())
    if re.search(r"\b404\b", told):
        return "the mirror of this machine does not have it"
    return f"the mirror of this machine does not answer: {told}"


def _mirror() -> str:
    """From where apt takes Debian itself."""
    asks = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    for line in run(asks, check=False).stdout.splitlines():
        origin, component, uri = line.split(maxsplit=2)
        if (origin, component) == ("Debian", "main") and "security" not in uri:
            return uri
    return ""


def build(release: str) -> None:
    """Make its root unless it is there. Who comes second waits for the first."""
    ready = root(release)
    if ready.exists():
        return
    ready.parent.mkdir(parents=True, exist_ok=True)
    with open(ready.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready.exists():
            return
        lacking = missing(release)
        if lacking:
            raise LabError(lacking)
        print(f"lab: the root of {release} is made in {ready}; takes some 4 minutes", flush=True)
        made = ready.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        run(
            [
                "mmdebstrap",
                "--quiet",
                "--mode=root",
                "--variant=apt",
                "--aptopt=APT::Install-Recommends false",
                f"--include={','.join(packages())}",
                release,
                str(made),
                _mirror(),
            ],
            timeout=HALF_AN_HOUR,
        )
        made.rename(ready)
