"""Become a long-living process: leave the caller's session, record, exec.

    python3 -m lab.launcher RECORD LOG COMMAND [ARGUMENT ...]

Returns to its caller when the record is written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .procs import child_environment, write_record


def main(record: str, log: str, argv: list[str]) -> None:
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        # One byte: the record stands. End of file: the child died before it did.
        os._exit(0 if os.read(told, 1) else 1)
    os.close(told)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    write_record(Path(record), os.getpid())
    os.write(tell, b"1")
    os.closerange(3, 256)
    os.execvpe(argv[0], argv, child_environment())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
