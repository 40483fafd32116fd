"""A play that must fail and change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demo import plays, traces

from lab import Lab


def refused(lab: Lab, playbook: str, variables: Mapping[str, Any]) -> str:
    """Run it on host-a; what it said, on one line."""
    before = traces.snapshot(lab)
    here = {**plays.UNMEASURED, "maintenance_hosts": "host-a"}
    ended = plays.run(lab, playbook, {**here, **variables})
    assert ended.code != 0, ended.text
    assert traces.snapshot(lab) == before
    assert "Traceback" not in ended.text
    assert "MODULE FAILURE" not in ended.text
    return " ".join(ended.text.split())
