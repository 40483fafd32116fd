"""Addresses: a password that one holds, and two that lead to one host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
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


def one_host(found: Mapping[str, str], called: str) -> str:
    """Name two inventory names that lead to the same host, as a sentence; '': there are none.

    `found`: what each name leads to; '': that is not known. `called`: what that is, a UUID for example.
    Believed, the host would be counted twice, keep a record twice, or be the target of its own VMs.
    """
    names: dict[str, list[str]] = {}
    for name, leads_to in found.items():
        names.setdefault(leads_to, []).append(name)
    for leads_to, same in names.items():
        if leads_to and len(same) > 1:
            return (
                f"{', '.join(same[:-1])} and {same[-1]} are the same host ({called} {leads_to}): take all but one of"
                " these names out of the inventory, or correct where one of them points to."
            )
    return ""
