# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may do what: bearer tokens, and rules as a ClusterRole has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .answers import ApiError, status

ADMIN_TOKEN = "admin"


@dataclass
class Access:
    """`rules`: token -> rules; the admin token may do everything. `expired`: get 401."""

    rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)

    def who(self, header: str) -> str:
        """The token. Raises ApiError 401."""
        token = header.removeprefix("Bearer ").strip()
        if token in self.expired or (token != ADMIN_TOKEN and token not in self.rules):
            raise status(401, "Unauthorized", "Unauthorized")
        return token

    def allowed(self, token: str, verb: str, group: str, resource: str) -> bool:
        if token == ADMIN_TOKEN:
            return True
        for rule in self.rules[token]:
            if (
                _has(rule.get("verbs"), verb)
                and _has(rule.get("apiGroups"), group)
                and _has(rule.get("resources"), resource)
            ):
                return True
        return False

    def check(
        self, token: str, verb: str, group: str, resource: str, name: str, space: str
    ) -> None:
        """Raises ApiError 403 in the API server's words."""
        if self.allowed(token, verb, group, resource):
            return
        plural, _slash, sub = resource.partition("/")
        kind = f"{plural}.{group}" if group else plural
        subject = f'{kind} "{name}"' if name else kind
        where = f'in the namespace "{space}"' if space else "at the cluster scope"
        text = (
            f'{subject} is forbidden: User "{token}" cannot {verb} resource '
            f'"{resource if sub else plural}" in API group "{group}" {where}'
        )
        raise status(403, text, "Forbidden", {"name": name, "group": group, "kind": plural})

    def check_cancel(self, token: str, plural: str) -> None:
        """virt-api asks a second time, for the whole path; its refusal is 401, without a body."""
        if not self.allowed(
            token, "update", "subresources.kubevirt.io", f"{plural}/evacuate/cancel"
        ):
            raise ApiError(401, "")


def _has(values: list[str] | None, wanted: str) -> bool:
    return bool(values) and ("*" in values or wanted in values)
