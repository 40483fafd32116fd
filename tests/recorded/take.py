"""Write down what the hosts of a lab answer to a preflight, or compare it with what was written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from demo import preflights

from lab import Lab
from lab.names import gateway
from lab.release import OWN

from . import BINDING, HERE, Recording, differences

ON_HOST = "/run/recording.json"
NOBODY = "198.51.100.1"  # RFC 5737: an address for documentation
ANEW = os.environ.get("VIRTOPS_RECORD") == "1"  # make record


def compare(lab: Lab, node: str, name: str, options: Mapping[str, Any]) -> list[str]:
    """What libvirt answers otherwise than in the recording of this name. Changes nothing. Each release has its own."""
    release = lab.host(node).release
    path = HERE / (f"{name}.json" if release == OWN else f"{name}-{release}.json")
    now = take(lab, node, options)
    if ANEW:
        now.write(path)
    return differences(Recording.read(path), now)


def take(lab: Lab, node: str, options: Mapping[str, Any]) -> Recording:
    env = {"PYTHONPATH": str(BINDING), "VIRTOPS_RECORDING": ON_HOST}
    seen = preflights.look(lab, node, {"recorded": options}, environment=env)["recorded"]
    text = lab.host(node).exec(f"cat {ON_HOST} && rm {ON_HOST}").stdout
    # Who serves the shared disks, and the hosts beside it. Where it is played, a lab may be up, and the address one of
    # this machine.
    told, calls = (json.loads(one.replace(gateway(lab.number), NOBODY)) for one in (json.dumps(seen.findings), text))
    return Recording({**preflights.hosts(lab, node), **options}, told, **calls)
