"""A lab for one program, which is taken down however that ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from . import release
from .fleet import Lab
from .names import LabError, lab_name
from .needs import missing
from .procs import interruptible
from .release import OWN


def in_a_lab(
    what: str, hosts: int, does: Callable[[Lab], int], releases: Mapping[str, str] | None = None, later: str = OWN
) -> int:
    """The exit code. `what`: the make target. `later`: to which it upgrades hosts. 2: this machine cannot have such
    a lab."""
    lacking = missing() or [why for why in (release.missing(later),) if why]
    if lacking:
        print(f"{what} cannot run on this machine:\n  " + "\n  ".join(lacking), file=sys.stderr)
        return 2
    name = f"{lab_name()[:24]}-{what.partition('-')[0]}"
    interruptible()
    try:
        Lab.down(name)
        release.build(later)
        return does(Lab.up(name, hosts, releases=releases))
    except LabError as error:
        print(f"{what}: the lab failed: {error}", file=sys.stderr)
        return 1
    finally:
        Lab.down(name)
