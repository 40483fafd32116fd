"""Preflight: what a libvirt host reports of its kernel and its QEMU. Only reads."""

from __future__ import annotations

from ..domain.untrusted import parse_xml

USERFAULTFD = "/proc/sys/vm/unprivileged_userfaultfd"


def own_userfaultfd(path: str = USERFAULTFD) -> int:
    """The kernel's setting; -1: this kernel has none, and permits everybody."""
    try:
        with open(path, encoding="ascii") as stream:
            return int(stream.read().strip() or -1)
    except (OSError, ValueError):
        return -1


def qemu_is_root(capabilities: str) -> bool | None:
    """Does QEMU run as root there? From the base label of the DAC driver; None: not reported."""
    for model in parse_xml(capabilities).findall("host/secmodel"):
        if model.findtext("model") != "dac":
            continue
        label = (model.findtext("baselabel") or "").strip()
        if label:
            return label.split(":", 1)[0].lstrip("+") == "0"
    return None


def permits_userfaultfd(setting: int | None, root: bool | None) -> bool | None:
    """May QEMU there have what post-copy needs? None: not known."""
    if root or setting in (1, -1):
        return True
    if setting is None or root is None:
        return None
    return False
