"""Treat the empty answer to a survey question as not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def given(args: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that are an empty text: the module has its defaults for them."""
    return {name: value for name, value in args.items() if value != ""}
