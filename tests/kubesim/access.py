"""Who may do what: bearer tokens, and the ClusterRoles that are bound to their users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from .answers import ApiError, status
from .kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Kind
from .store import Obj
from .world import World

ADMIN_TOKEN = "admin"
ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"  # the group of all who are known
RBAC = "rbac.authorization.k8s.io"
Rules = list[dict[str, Any]]
_ASKED_OF_ONESELF = {("authorization.k8s.io", "selfsubjectaccessreviews")}
# What KubeVirt binds to everybody who is known.
READ = [
    {"apiGroups": ["kubevirt.io"], "resources": ["kubevirts"], "verbs": ["get", "list"]},
    {"apiGroups": ["subresources.kubevirt.io"], "resources": ["version"], "verbs": ["get"]},
]


class Access:
    """The admin token may do everything. `expired`: tokens that get 401.

    `users`: token -> user; a token that is not in it is its user's name. `rules`: the rules of a
    user, read from and written to the cluster's own ClusterRole and ClusterRoleBinding objects.
    """

    def __init__(self, world: World) -> None:
        self.blank: Callable[[], bool] = lambda: False  # who may do what is not read yet
        self.users: dict[str, str] = {}
        self.expired: set[str] = set()
        self.rules = _Bound(world)
        self.used: set[tuple[str, str]] = set()  # (verb, resource) that accounts were judged by

    def user(self, header: str) -> str:
        token = header.removeprefix("Bearer ").strip()
        return self.users.get(token, token)

    def who(self, header: str) -> str:
        """The user. Raises ApiError 401."""
        token, user = header.removeprefix("Bearer").strip(), self.user(header)
        if not token:
            return ANONYMOUS
        if token in self.expired or (user != ADMIN_TOKEN and user not in self.rules):
            raise status(401, "Unauthorized", "Unauthorized")
        return user

    def allowed(self, user: str, verb: str, group: str, resource: str, name: str = "") -> bool:
        if user == ADMIN_TOKEN:
            return True
        if user != ANONYMOUS and (group, resource) in _ASKED_OF_ONESELF:
            return True
        return any(
            _has(rule.get("verbs"), verb)
            and _has(rule.get("apiGroups"), group)
            and _has(rule.get("resources"), resource)
            and (not rule.get("resourceNames") or name in rule["resourceNames"])
            for rule in self.rules.of(user)
        )

    def check(self, user: str, verb: str, group: str, resource: str, name: str, space: str) -> None:
        """Raises ApiError 403 in the API server's words."""
        if user != ADMIN_TOKEN:
            self.used.add((verb, resource))
        if not self.blank() and self.allowed(user, verb, group, resource, name):
            return
        plural, _slash, _sub = resource.partition("/")
        kind = f"{plural}.{group}" if group else plural
        subject = f'{kind} "{name}"' if name else kind
        where = f'in the namespace "{space}"' if space else "at the cluster scope"
        text = (
            f'{subject} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {where}'
        )
        details = {"name": name, "group": group, "kind": plural}
        raise status(403, text, "Forbidden", {k: v for k, v in details.items() if v})

    def check_cancel(self, user: str, plural: str) -> None:
        """virt-api asks a second time, for the whole path; its refusal is 401, without a body."""
        if user != ADMIN_TOKEN:
            self.used.add(("update", f"{plural}/evacuate/cancel"))
        if not self.allowed(user, "update", "subresources.kubevirt.io", f"{plural}/evacuate/cancel"):
            raise ApiError(401, "")


class _Bound(MutableMapping[str, Rules]):
    """user -> the rules of all ClusterRoles that are bound to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store

    def _roles(self, user: str) -> list[str]:
        return [
            binding["roleRef"]["name"]
            for binding in self._store.all(CLUSTER_ROLE_BINDINGS)
            if any(_same(subject, user) for subject in binding.get("subjects") or [])
        ]

    def of(self, user: str) -> Rules:
        """With what it may do as one of those who are known."""
        own = self.get(user, [])
        everybody = self.get(AUTHENTICATED, []) if user != ANONYMOUS else []
        return [*own, *everybody]

    def __getitem__(self, user: str) -> Rules:
        return self._world.do(lambda: self._read(user))

    def _read(self, user: str) -> Rules:
        roles = self._roles(user)
        if not roles:
            raise KeyError(user)
        found = (self._store.find(CLUSTER_ROLES, "", role) for role in roles)
        return [rule for role in found if role for rule in role.get("rules") or []]

    def __setitem__(self, user: str, rules: Rules) -> None:
        """One role of the user's name, bound to it."""
        role: Obj = {"metadata": {"name": user}, "rules": rules}
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
        kind = "Group" if user == AUTHENTICATED else "User"
        subject = {"apiGroup": RBAC, "kind": kind, "name": user}
        binding: Obj = {"metadata": {"name": user}, "roleRef": ref, "subjects": [subject]}
        self._world.do(lambda: self._put(CLUSTER_ROLES, role))
        self._world.do(lambda: self._put(CLUSTER_ROLE_BINDINGS, binding))

    def _put(self, kind: Kind, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        if self._store.find(kind, "", name) is None:
            self._store.create(kind, obj)
        else:
            rest = {key: value for key, value in obj.items() if key != "metadata"}
            self._store.change(kind, "", name, lambda found: found.update(rest))

    def __delitem__(self, user: str) -> None:
        self._world.do(lambda: self._store.delete(CLUSTER_ROLE_BINDINGS, "", user))

    def __iter__(self) -> Iterator[str]:
        bindings = self._world.do(lambda: list(self._store.all(CLUSTER_ROLE_BINDINGS)))
        for binding in bindings:
            for subject in binding.get("subjects") or []:
                yield subject["name"]

    def __len__(self) -> int:
        return len(list(iter(self)))


def _same(subject: Obj, user: str) -> bool:
    if subject.get("kind") == "ServiceAccount":
        return user == f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}"
    return subject.get("kind") in ("User", "Group") and bool(subject["name"] == user)


def _has(values: list[str] | None, wanted: str) -> bool:
    return bool(values) and ("*" in values or wanted in values)
