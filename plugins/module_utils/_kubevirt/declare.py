"""Write an eviction strategy into the templates of VMs.

A running instance keeps the one with which it was started: its spec cannot be edited. So the
result says which instances do, until they are restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.model.policy import PolicyError
from .._core.run.diff import diff
from .._policy.expression import Expression, ExpressionError, compile_expression, mark
from .api.client import MERGE, Client
from .api.cluster import read_cluster
from .api.errors import AccessDenied, KubeError
from .api.failures import VMNotHere
from .objects import facts, names
from .objects.document import vmi_document

Obj = dict[str, Any]
_VMS, _VMIS = "virtualmachines", "virtualmachineinstances"


class DeclareError(Exception):
    """A strategy could not be declared. The text names the VMs and what was written before."""


@dataclass(frozen=True)
class DeclareRequest:
    """`names`: of VMs in `namespace`. Else `when` (JMESPath) and `labels` (a selector) choose, in
    `namespace` or, if that is empty, in all. An empty `strategy` removes the declaration."""

    auth: Mapping[str, Any]
    strategy: str
    names: Sequence[str] = ()
    namespace: str = ""
    when: str | None = None
    labels: str = ""
    check: bool = False


@dataclass(frozen=True)
class Declared:
    """One VM. `template`: what it declares; `running`: what its instance was started with, None
    if it is off."""

    vm: Obj
    template: str
    running: str | None

    @property
    def name(self) -> str:
        return "/".join(facts.key(self.vm))


def declare(request: DeclareRequest) -> dict[str, Any]:
    """Raises PolicyError for a wrong `when`, VMNotHere, DeclareError, KubeError (AccessDenied).

    Nothing is written before every chosen VM was found and the server has accepted each change
    in a dry run.
    """
    if not (request.names or request.when is not None or request.labels):
        raise PolicyError(
            "name, when and label_selectors are all empty, which would select every VM of the cluster. "
            "Name the VMs, or select them. Nothing was changed."
        )
    try:
        when = None if request.when is None else compile_expression(request.when)
    except ExpressionError as exc:
        raise PolicyError(f"when: {exc}") from exc
    client = Client(request.auth)
    try:
        return _Declaring(client, request, when).run()
    finally:
        client.close()


class _Declaring:
    def __init__(self, client: Client, request: DeclareRequest, when: Expression | None) -> None:
        self._client = client
        self._request = request
        self._when = when

    def run(self) -> dict[str, Any]:
        default = read_cluster(self._client).default_strategy
        chosen = self._named() if self._request.names else self._selected()
        found = [Declared(vm, _declares(vm), _runs_with(vmi, default)) for vm, vmi in chosen]
        found.sort(key=lambda entry: entry.name)
        work = [entry for entry in found if entry.template != self._request.strategy]
        self._write(work, True)
        if not self._request.check:
            self._write(work, False)
        return _result(found, self._request.strategy, default)

    # Which

    def _named(self) -> list[tuple[Obj, Obj | None]]:
        space = self._request.namespace
        found, missing = [], []
        for name in dict.fromkeys(self._request.names):
            vm = self._client.find(names.kubevirt(space, _VMS, name)) if name else None
            if vm is None:
                missing.append(repr(name))
                continue
            found.append((vm, self._client.find(names.kubevirt(space, _VMIS, name))))
        if missing:
            raise VMNotHere(
                f"There is no VM {', '.join(missing)} in namespace {space}. See kubectl get vm "
                "--all-namespaces. Nothing was changed."
            )
        return found

    def _path(self, plural: str) -> str:
        space = self._request.namespace
        return names.kubevirt(space, plural) if space else f"{names.KUBEVIRT}/{plural}"

    def _selected(self) -> list[tuple[Obj, Obj | None]]:
        vms, _version = self._client.list(self._path(_VMS), self._request.labels)
        instances, _version = self._client.list(self._path(_VMIS))
        of = {facts.key(vmi): vmi for vmi in instances}
        pairs = [(vm, of.get(facts.key(vm))) for vm in vms]
        if self._when is None:
            return pairs
        chosen, untold = [], []
        for vm, vmi in pairs:
            marked = mark(document_of(vm, vmi))
            answer = self._when.answer(marked)
            if answer is None:
                lacks = ", ".join(self._when.lacks(marked))
                untold.append(f"{'/'.join(facts.key(vm))} ({lacks})")
            elif answer:
                chosen.append((vm, vmi))
        if untold:
            raise DeclareError(
                f"when: no answer for {'; '.join(sorted(untold))}: the values in brackets are "
                "not known. Nothing was changed; give them a default with not_null()."
            )
        return chosen

    # Writing

    def _write(self, work: Sequence[Declared], dry: bool) -> None:
        done: list[str] = []
        for entry in work:
            try:
                self._patch(entry.vm, dry)
            except AccessDenied:
                raise
            except KubeError as exc:
                before = "nothing" if dry or not done else ", ".join(done)
                text = "has changed since it was read" if exc.code == 409 else exc.message
                raise DeclareError(f"{entry.name}: {text}. Changed before: {before}.") from exc
            done.append(entry.name)

    def _patch(self, vm: Obj, dry: bool) -> None:
        """Only the version that was read: somebody's change of the same moment is not undone."""
        namespace, name = facts.key(vm)
        patch = {
            "metadata": {"resourceVersion": vm["metadata"]["resourceVersion"]},
            "spec": {"template": {"spec": {"evictionStrategy": self._request.strategy or None}}},
        }
        query = {"dryRun": "All"} if dry else None
        path = names.kubevirt(namespace, _VMS, name)
        self._again(lambda: self._client.request("PATCH", path, patch, query, MERGE), vm, patch)

    def _again(self, send: Callable[[], Obj], vm: Obj, patch: Obj) -> None:
        """A VM's status changes often, and with it its version: then it is read once more."""
        for left in (2, 1, 0):
            try:
                send()
                return
            except KubeError as exc:
                if exc.code != 409 or not left:
                    raise
                now = self._client.get(names.kubevirt(*_place(vm)))
                if _declares(now) != _declares(vm):
                    raise
                patch["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]


def _place(vm: Obj) -> tuple[str, str, str]:
    namespace, name = facts.key(vm)
    return namespace, _VMS, name


def _declares(vm: Obj) -> str:
    template = ((vm.get("spec") or {}).get("template") or {}).get("spec") or {}
    return str(template.get("evictionStrategy") or "")


def _runs_with(vmi: Obj | None, default: str) -> str | None:
    if vmi is None or facts.final(vmi):
        return None
    return str(vmi["spec"].get("evictionStrategy") or default)


def document_of(vm: Obj, vmi: Obj | None) -> dict[str, Any]:
    """The document of a VM: of its instance; if it is off, of the one that would be started.

    The strategy is what the VM declares, since that is what this module changes.
    """
    if vmi is None or facts.final(vmi):
        template = (vm.get("spec") or {}).get("template") or {}
        meta = template.get("metadata") or {}
        owner = {"kind": "VirtualMachine", "name": vm["metadata"]["name"], "controller": True}
        vmi = {
            "metadata": {
                "name": vm["metadata"]["name"],
                "namespace": vm["metadata"]["namespace"],
                "uid": vm["metadata"]["uid"],
                "labels": meta.get("labels") or {},
                "annotations": meta.get("annotations") or {},
                "ownerReferences": [{**owner, "uid": vm["metadata"]["uid"]}],
            },
            "spec": template.get("spec") or {},
            "status": {},
        }
    return {**vmi_document(vmi, vm), "eviction_strategy": _declares(vm) or None}


def _result(found: Sequence[Declared], strategy: str, default: str) -> dict[str, Any]:
    rows, before, after = [], {}, {}
    for entry in found:
        keeps = entry.running is not None and entry.running != (strategy or default)
        namespace, name = facts.key(entry.vm)
        rows.append(
            {
                "name": name,
                "namespace": namespace,
                "uuid": entry.vm["metadata"]["uid"],
                "template": entry.template,
                "running": entry.running,
                "written": entry.template != strategy,
                "restart_needed": keeps,
            }
        )
        before[f"VM {entry.name} (template)"] = entry.template or "declares none"
        after[f"VM {entry.name} (template)"] = strategy or "declares none"
        if entry.running is not None:
            line = f"VM {entry.name} (running)"
            before[line] = entry.running
            after[line] = f"{entry.running} until it is restarted" if keeps else entry.running
    return {
        "changed": any(row["written"] for row in rows),
        "vms": rows,
        "restart_needed": [f"{r['namespace']}/{r['name']}" for r in rows if r["restart_needed"]],
        "diff": diff(before, after),
    }
