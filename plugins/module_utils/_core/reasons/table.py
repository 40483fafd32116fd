"""The whole table, and the sets that are taken from it. docs/reasons.md is made from it."""

from __future__ import annotations

from . import cluster, course, migratable, node, placement, policy
from .codes import Reason
from .row import Preflight, Row

_FILES = (migratable, placement, policy, course, cluster, node)
TABLE: dict[Reason, Row] = {reason: row for file in _FILES for reason, row in file.ROWS.items()}
LASTING = frozenset(reason for reason, row in TABLE.items() if row.lasting)
OF_THE_VM = frozenset(reason for reason, row in TABLE.items() if row.of_the_vm)
IN_A_QUEUE = frozenset(reason for reason, row in TABLE.items() if row.in_a_queue)
# What the preflight looks for
CHECKED: dict[Reason, Preflight] = {reason: row.preflight for reason, row in TABLE.items() if row.preflight is not None}
