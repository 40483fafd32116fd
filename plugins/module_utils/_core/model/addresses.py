# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that may hold a password. Pure."""

from __future__ import annotations

from urllib.parse import unquote


def passwords_in(address: str) -> set[str]:
    """The password of scheme://user:password@host, as it stands there and as it is meant."""
    _scheme, found, rest = address.partition("://")
    authority = rest
    for end in "/?#":
        authority = authority.partition(end)[0]
    user, at, _host = authority.rpartition("@")
    password = user.partition(":")[2] if found and at else ""
    return {password, unquote(password)} if password else set()
