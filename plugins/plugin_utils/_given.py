# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a survey gives for a question without an answer is as good as not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def given(args: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that are an empty text: the module has its defaults for them."""
    return {name: value for name, value in args.items() if value != ""}
