"""Tells from the raw log alone what became of every guest.

    python3 -m lab check RAW_DIRECTORY [--json] [--drained host-a,host-b]

Reads ticks.log and manifest.jsonl (rawlog.py says what stands in them) and
nothing else; shares no code with the lab or with the product.

Verdicts, the worst that fits:
  twice    ran at two places, or one stretch of its life ran again: two boot ids
           at once, or a tick that was seen before
  lost     its ticks end (or a boot of it ends) and nothing says why
  gap      it ticks to the end, but ticks are missing in between
  panic    its kernel panicked, and no more is known against anyone
  paused   no ticks at the end, but its QEMU process is there
  stopped  an orderly or announced end, or saved; it may run again since
  blocked  ticks to the end, and never left a host that was drained
  live     one boot id, ticks to the end, no gap, no repeat"""

from .judge import REMOVED
from .report import check, line_of, main

__all__ = ["REMOVED", "check", "line_of", "main"]
