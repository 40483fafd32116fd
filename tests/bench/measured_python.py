"""Stands for python3 on a lab host: runs it, and notes what the module's process took.

Installed as an executable of the host; Ansible pipes the module into it. A line of JSON for each
call. Connections are those that the whole host opened meanwhile, the kernel's own count: the
module's, and those of what it started.
"""

from __future__ import annotations

import json
import os
import sys
import time

PYTHON = "/usr/bin/python3"
FILE = "/root/slices.jsonl"


def opened() -> int:
    """ActiveOpens of the host's network namespace."""
    with open("/proc/net/snmp", encoding="ascii") as stream:
        names, numbers = (line.split() for line in stream if line.startswith("Tcp:"))
    return int(numbers[names.index("ActiveOpens")])


def main() -> int:
    before, began = opened(), time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.execv(PYTHON, [PYTHON, *sys.argv[1:]])
    _pid, status, used = os.wait4(pid, 0)
    row = {
        "seconds": time.monotonic() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "mb": used.ru_maxrss / 1024,
        "connections": opened() - before,
    }
    with open(FILE, "a", encoding="ascii") as stream:
        stream.write(json.dumps(row) + "\n")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
