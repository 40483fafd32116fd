"""Rows of text in columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """A line for each row. `right`: columns that are flush right. The last one is not filled up."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def count(number: int, what: str) -> str:
    """1 host, 2 hosts."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
