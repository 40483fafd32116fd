"""What the API says about itself: versions, groups, resources."""

from __future__ import annotations

from typing import Any

from .kinds import KINDS, Kind

Obj = dict[str, Any]
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# Groups that have no objects of their own: (plural, kind, verbs) of each.
VIRTUAL: dict[tuple[str, str], list[tuple[str, str, list[str]]]] = {
    ("authorization.k8s.io", "v1"): [("selfsubjectaccessreviews", "SelfSubjectAccessReview", ["create"])],
    ("subresources.kubevirt.io", "v1"): [
        ("virtualmachineinstances/evacuate/cancel", "VirtualMachineInstance", ["update"]),
        ("virtualmachines/start", "VirtualMachine", ["update"]),
        ("virtualmachines/stop", "VirtualMachine", ["update"]),
        ("virtualmachines/migrate", "VirtualMachine", ["update"]),
        ("version", "Version", ["get"]),
    ],
}
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-06-01T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def answer(parts: list[str], accept: str) -> tuple[Obj, str] | None:
    """(body, content type) for a path; None: there is nothing."""
    plain = "application/json"
    if parts == ["version"]:
        return VERSION, plain
    if parts in (["api"], ["apis"]) and _wants_aggregated(accept):
        return _aggregated(core=parts == ["api"]), AGGREGATED
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}, plain
    if parts == ["apis"]:
        listed = [_group(group) for group in _groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}, plain
    if len(parts) == 2 and parts[0] == "apis" and parts[1] in _groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])}, plain
    if len(parts) == 2 and parts[0] == "api":
        return _resources("", parts[1]), plain
    if len(parts) == 3 and parts[0] == "apis" and parts[1] in _groups():
        return _resources(parts[1], parts[2]), plain
    return None


def _wants_aggregated(accept: str) -> bool:
    wanted = accept.replace(" ", "")
    return "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" in wanted


def _versions(group: str) -> list[str]:
    found = {k.version for k in KINDS if k.group == group}
    return sorted(found | {version for name, version in VIRTUAL if name == group})


def _groups() -> list[str]:
    return sorted({k.group for k in KINDS if k.group} | {group for group, _version in VIRTUAL})


def _group(group: str) -> Obj:
    versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in _versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> Obj:
    listed: list[Obj] = []
    for kind in [k for k in KINDS if (k.group, k.version) == (group, version)]:
        listed.append(
            {
                "name": kind.plural,
                "singularName": kind.kind.lower(),
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": VERBS,
                **({"shortNames": list(kind.short)} if kind.short else {}),
            }
        )
        for sub in kind.subresources:
            listed.append({"name": f"{kind.plural}/{sub}", **_sub(kind, sub)})
    for plural, name, verbs in VIRTUAL.get((group, version), []):
        base = {"name": plural, "singularName": "", "namespaced": "/" in plural}
        listed.append({**base, "kind": name, "verbs": verbs})
    head = {"kind": "APIResourceList", "apiVersion": "v1"}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": listed}


def _sub(kind: Kind, sub: str) -> Obj:
    base: Obj = {"singularName": "", "namespaced": kind.namespaced, "verbs": ["create"]}
    if sub == "eviction":  # clients look here whether pods can be evicted at all
        return {**base, "group": "policy", "version": "v1", "kind": "Eviction"}
    return {**base, "kind": kind.kind}


def _aggregated(core: bool) -> Obj:
    items = []
    for group in [""] if core else _groups():
        versions = []
        for version in _versions(group):
            flat = _resources(group, version)["resources"]
            resources = [_nested(r, group, version, flat) for r in flat if "/" not in r["name"]]
            versions.append({"version": version, "resources": resources, "freshness": "Current"})
        meta = {"name": group} if group else {}
        items.append({"metadata": {**meta, "creationTimestamp": None}, "versions": versions})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return {**head, "metadata": {}, "items": items}


def _nested(found: Obj, group: str, version: str, flat: list[Obj]) -> Obj:
    def kind(obj: Obj) -> Obj:
        return {"group": obj.get("group", group), "version": obj.get("version", version), "kind": obj["kind"]}

    nested: Obj = {
        "resource": found["name"],
        "responseKind": kind(found),
        "scope": "Namespaced" if found["namespaced"] else "Cluster",
        "singularResource": found["singularName"],
        "verbs": found["verbs"],
    }
    if found.get("shortNames"):
        nested["shortNames"] = found["shortNames"]
    prefix = found["name"] + "/"
    subs = [
        {"subresource": sub["name"].removeprefix(prefix), "responseKind": kind(sub), "verbs": sub["verbs"]}
        for sub in flat
        if sub["name"].startswith(prefix)
    ]
    return {**nested, "subresources": subs} if subs else nested
