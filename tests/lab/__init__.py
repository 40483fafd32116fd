"""Real libvirt hosts on one machine, for tests, demo and benchmarks. See README.md."""

from .fleet import Lab
from .guest import GuestSpec
from .host import Host
from .names import LabError
from .needs import missing, need_lab, own_lab

__all__ = ["GuestSpec", "Host", "Lab", "LabError", "missing", "need_lab", "own_lab"]
