"""The HTTP side: paths, verbs, lists, watches, and a log of every request."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from . import admission, discovery, metrics, validation, virtapi, watching
from .access import ANONYMOUS, Access
from .answers import ApiError, expired, status
from .faults import Faults
from .kinds import BY_PATH, EVICTION, PODS, REVIEW, Kind
from .patching import apply_patch
from .selectors import make_test
from .store import Obj
from .world import World

# What the answer to the request under way says besides.
_WARNINGS: ContextVar[list[str]] = ContextVar("warnings")
_CALLS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Call:
    """A request as the log keeps it. `at`: monotonic seconds; a watch is logged at its start."""

    method: str
    path: str
    query: str
    status: int
    at: float
    seconds: float
    user: str = ""
    agent: str = ""


@dataclass(frozen=True)
class Place:
    """What a path names."""

    kind: Kind
    namespace: str
    name: str
    sub: str


class Server:
    """The API of one simulated cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.access = Access(world)
        self.faults = Faults()
        self.access.blank = lambda: self.faults.blank
        self.metrics = metrics.Metrics(world)
        self.streams_lists = True  # the feature gate WatchList: on but in 1.33, from 1.32
        self.log: list[Call] = []
        self.on_call: list[Callable[[Call], None]] = []
        self._ending = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        return app

    def end(self) -> None:
        """End all watches."""
        self._ending.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        _WARNINGS.set([])
        if self.faults.away and request.transport is not None:
            request.transport.abort()
            return web.Response(status=503)
        if self.faults.latency:
            await asyncio.sleep(self.faults.latency)
        try:
            response = await self._handle(request, began)
        except ConnectionResetError:  # the client was killed while it sent: nobody reads an answer
            return web.Response(status=400)
        except ApiError as exc:
            if isinstance(exc.body, str):
                response = web.Response(status=exc.code, text=exc.body, headers=exc.headers)
            else:
                response = web.json_response(exc.body, status=exc.code, headers=exc.headers)
        for text in _WARNINGS.get():
            response.headers.add("Warning", "299 - " + json.dumps(text))
        if not isinstance(response, watching.Stream):
            self._log(request, response.status, began)
        return response

    def _log(self, request: web.Request, code: int, began: float) -> None:
        took = time.monotonic() - began
        entry = Call(
            request.method,
            request.path,
            request.query_string,
            code,
            began,
            took,
            self.access.user(request.headers.get("Authorization", "")),
            request.headers.get("User-Agent", ""),
        )
        self.log.append(entry)
        for listener in self.on_call:
            listener(entry)

    async def _handle(self, request: web.Request, began: float) -> web.StreamResponse:
        user = self.access.who(request.headers.get("Authorization", ""))
        self.faults.check(request.method, request.path)
        parts = [part for part in request.path.split("/") if part]
        if parts[:1] == [metrics.PREFIX]:
            if user == ANONYMOUS:  # Prometheus knows nobody of that name
                raise status(401, "Unauthorized", "Unauthorized")
            return self.metrics.answer(parts[1:], request.query.get("query", ""))
        if parts[:1] == ["apis"] and parts[1:2] == ["subresources.kubevirt.io"]:
            return await self._subresource(request, user, parts[3:])
        if parts == ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
            return self._review(user, await request.json())
        found = _place(parts)
        if found is None:
            return self._discovery(parts, request.headers.get("Accept", ""))
        return await self._resource(request, user, found, began)

    # Discovery and access

    @staticmethod
    def _discovery(parts: list[str], accept: str) -> web.Response:
        found = discovery.answer(parts, accept)
        if found is None:
            raise status(404, "the server could not find the requested resource", "NotFound")
        body, kind = found
        return web.Response(body=json.dumps(body).encode(), headers={"Content-Type": kind})

    def _review(self, user: str, body: Obj) -> web.Response:
        found = validation.decode(REVIEW, body, "")[1]
        validation.check(REVIEW, {**body, "metadata": {"name": "review"}}, found)
        asked = body["spec"].get("resourceAttributes") or {}
        resource = asked.get("resource", "")
        if asked.get("subresource"):
            resource += f"/{asked['subresource']}"
        verb, group = asked.get("verb", ""), asked.get("group", "")
        allowed = self.access.allowed(user, verb, group, resource, asked.get("name", ""))
        answer = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": body["spec"],
            "status": {"allowed": allowed},
        }
        return web.json_response(answer, status=201)

    async def _subresource(self, request: web.Request, user: str, parts: list[str]) -> web.Response:
        if parts == ["version"] and request.method == "GET":
            if self.world.virt_api_down:
                raise virtapi.unreachable()
            self.access.check(user, "get", "subresources.kubevirt.io", "version", "", "")
            major, minor = self.world.version
            return web.json_response({"gitVersion": f"v{major}.{minor}.0"})
        if len(parts) < 5 or parts[0] != "namespaces" or request.method != "PUT":
            raise status(404, "the server could not find the requested resource", "NotFound")
        namespace, plural, name, sub = parts[1], parts[2], parts[3], "/".join(parts[4:])
        first = f"{plural}/{parts[4]}"
        self.access.check(user, "update", "subresources.kubevirt.io", first, name, namespace)
        accept = request.headers.get("Accept", "*/*")
        if "*/*" not in accept and not self.world.virt_api_down:
            raise ApiError(406, "406: Not Acceptable\n\nAvailable representations: ")
        if sub == "evacuate/cancel":
            self.access.check_cancel(user, plural)
        text = await request.text()
        body = json.loads(text) if text else {}
        return web.Response(status=virtapi.put(self.world, namespace, plural, name, sub, body))

    # Resources

    async def _resource(self, request: web.Request, user: str, place: Place, began: float) -> web.StreamResponse:
        method, kind = request.method, place.kind
        watch = request.query.get("watch") in ("true", "1")
        verb = _CALLS.get(method, "get" if place.name else "watch" if watch else "list")
        if method == "DELETE" and not place.name:
            verb = "deletecollection"
        resource = f"{kind.plural}/{place.sub}" if place.sub else kind.plural
        self.access.check(user, verb, kind.group, resource, place.name, place.namespace)
        if method == "GET" and place.name:
            return web.json_response(self.world.store.get(kind, place.namespace, place.name))
        if method == "GET" and watch:
            return await self._watch(request, place, began)
        if method == "GET":
            return self._list(request, place)
        if method == "DELETE" and not place.name:
            return self._delete_all(request, place)
        if method == "DELETE":
            return await self._delete(request, place)
        body = await request.json()
        dry = request.query.get("dryRun") == "All"
        if place.sub == "eviction" and method == "POST":
            validation.decode(EVICTION, body, request.query.get("fieldValidation", ""))
            admission.evict(self.world, place.namespace, place.name, body, dry)
            ok = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            return web.json_response({**ok, "code": 201}, status=201)
        if place.sub:
            raise status(404, "the server could not find the requested resource", "NotFound")
        if method == "POST":
            return self._create(request, place, body, dry)
        return self._change(request, place, body, dry)

    def _create(self, request: web.Request, place: Place, body: Obj, dry: bool) -> web.Response:
        how = request.query.get("fieldValidation", "")
        warnings, found = validation.decode(place.kind, body, how)
        _WARNINGS.get().extend(warnings)
        _WARNINGS.get().extend(admission.older(self.world, place.kind, body, how))
        validation.place(self.world.store, place.kind, body, place.namespace)
        admission.mutate(self.world, place.kind, body)
        validation.check(place.kind, body, found)
        admission.create(self.world, place.kind, body)
        return web.json_response(self.world.store.create(place.kind, body, dry), status=201)

    def _change(self, request: web.Request, place: Place, body: Any, dry: bool) -> web.Response:
        store = self.world.store
        old = store.get(place.kind, place.namespace, place.name)
        if request.method == "PUT":
            new = body
        else:
            kind_of_patch = request.headers.get("Content-Type", "")
            new = apply_patch(place.kind, json.loads(json.dumps(old)), body, kind_of_patch)
        how = request.query.get("fieldValidation", "")
        patched = request.method == "PATCH"
        warnings, found = validation.decode(place.kind, new, how, patched)
        _WARNINGS.get().extend(warnings)
        validation.same(place.kind, old, new)
        validation.changed(place.kind, old, new)
        admission.update(self.world, place.kind, old, new)
        validation.check(place.kind, new, found)
        if dry:
            return web.json_response(new)
        return web.json_response(store.replace(place.kind, old, new))

    def _delete_all(self, request: web.Request, place: Place) -> web.Response:
        """A collection, by its selectors."""
        query, store, kind = request.query, self.world.store, place.kind
        test = make_test(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        items = [obj for obj in store.all(kind, place.namespace) if test(obj)]
        for obj in items:
            if kind is PODS:
                self.world.delete_pod(obj)
            else:
                store.delete(kind, place.namespace, obj["metadata"]["name"])
        body = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}}
        return web.json_response({**body, "items": items})

    async def _delete(self, request: web.Request, place: Place) -> web.Response:
        text = await request.text()
        options = json.loads(text) if text else {}
        wanted = options.get("preconditions") or {}
        store, kind = self.world.store, place.kind
        obj = store.get(kind, place.namespace, place.name)
        for key in ("uid", "resourceVersion"):
            if wanted.get(key) not in (None, obj["metadata"][key]):
                note = f"Precondition failed: {key} in precondition: {wanted[key]}"
                raise status(409, note, "Conflict")
        if kind is PODS:
            grace = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
            return web.json_response(self.world.delete_pod(obj, grace=None if grace is None else int(grace)))
        last, gone = store.delete(kind, place.namespace, place.name)
        if not gone and not kind.custom:
            return web.json_response(last)
        if not gone:
            return web.json_response(last)
        details = {"name": place.name, "group": kind.group, "kind": kind.plural}
        details["uid"] = obj["metadata"]["uid"]
        ok = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return web.json_response({**ok, "details": details})

    def _list(self, request: web.Request, place: Place) -> web.Response:
        query, store, kind = request.query, self.world.store, place.kind
        test = make_test(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        wanted = int(query.get("resourceVersion") or 0)
        if wanted > store.rv:
            text = f"Too large resource version: {wanted}, current: {store.rv}"
            raise status(504, f"Timeout: {text}", "Timeout", headers={"Retry-After": "1"})
        if query.get("resourceVersionMatch") == "Exact" and wanted < store.oldest:
            raise expired(wanted, store.oldest)
        items = [obj for obj in store.all(kind, place.namespace) if test(obj)]
        meta: Obj = {"resourceVersion": str(store.rv)}
        if query.get("continue"):
            rv, after = json.loads(base64.urlsafe_b64decode(query["continue"]))
            if rv < store.oldest:
                raise status(410, "The provided continue parameter is too old", "Expired")
            meta["resourceVersion"] = str(rv)
            items = [o for o in items if _key(o) > after]
        limit = int(query.get("limit") or 0)
        if limit and len(items) > limit:
            left = len(items) - limit
            items = items[:limit]
            token = json.dumps([int(meta["resourceVersion"]), _key(items[-1])]).encode()
            meta.update({"continue": base64.urlsafe_b64encode(token).decode()})
            meta["remainingItemCount"] = left
        body = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta}
        return web.json_response({**body, "items": items})

    async def _watch(self, request: web.Request, place: Place, began: float) -> web.StreamResponse:
        query = request.query
        if query.get("sendInitialEvents") in ("true", "1"):
            watching.check_initial(query, self.streams_lists)
        test = make_test(place.kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        asked = watching.Asked(place.kind, place.namespace, test, query)
        watch = watching.Watch(self.world.store, asked, self._ending, self.faults.drop_watches)
        return await watch.answer(request, lambda: self._log(request, 200, began))


def _key(obj: Obj) -> list[str]:
    return [obj["metadata"].get("namespace", ""), obj["metadata"]["name"]]


def _place(parts: list[str]) -> Place | None:
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = BY_PATH.get((group, version, rest[0]))
    if kind is None:
        return None
    name = rest[1] if len(rest) > 1 else ""
    return Place(kind, namespace, name, "/".join(rest[2:]))
