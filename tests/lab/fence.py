"""A fence agent for hosts of a lab: ClusterLabs' interface, options on standard input (lab, plug, action).

As an agent does what it should not, for tests: `lies` says off and does nothing, `hangs` never answers, `dies` switches
the host off and fails, `refuses` knows no such password, `leaves_on` says that it switched it off, and status is on.
"""

from __future__ import annotations

import sys
import time

from . import rawlog
from .fleet import Lab

ON, OFF, ERROR = 0, 2, 1


def main() -> int:
    options = dict(line.strip().partition("=")[::2] for line in sys.stdin if "=" in line)
    host, action, how = options["plug"], options.get("action", "off"), options.get("how", "")
    lab = Lab.load(options["lab"])
    if how == "hangs":
        time.sleep(3600)
    if how == "refuses":
        print(f"Unable to connect/login to fencing device (password {options.get('password')})", file=sys.stderr)
        return ERROR
    if how == "lies":
        return OFF if action == "status" else ON
    runs = lab.host(host).supervisor_pid is not None
    if action == "status":
        if not runs:
            rawlog.host_event(lab.paths.raw, host, "read as off")
        return ON if runs else OFF
    if action == "off" and runs and how != "leaves_on":
        lab.kill(host)
    return ERROR if how == "dies" and action == "off" else ON


if __name__ == "__main__":
    sys.exit(main())
