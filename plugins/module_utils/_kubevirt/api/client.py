"""Requests to the API: JSON in, JSON out, back-off where the server is busy.

Plain paths on the connection pool of the `kubernetes` package, which brings certificates,
tokens and proxies. Objects stay the dicts that the server sent: what a newer server says and
this code does not know is kept.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

try:
    import kubernetes.client
    import urllib3
except ImportError:  # said by auth.configuration
    urllib3 = None  # type: ignore[assignment]

from . import auth as authentication
from .errors import AccessDenied, KubeError, NoAnswer

Obj = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PAGE = 500
TRIES = 6
_LONGEST = 30.0  # seconds that one request waits at most to be asked again
_BUSY = frozenset({429, 500, 502, 503, 504})
_AWAY = frozenset({0, 502, 503, 504})
# Seconds for which a server is asked again that does not answer, whatever it is asked, before that is told; and for
# which one that denies everything may just have started: it does before it has read who may do what.
_SILENT_FOR = 6.0
_ALL = ("", False)
_BEHIND_FOR = 2.0  # as long, where the API answers and says what of the cluster does not
DENIES_FOR = 4.0
_PATH = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._:-]*)+")  # names as Kubernetes has them
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


class Client:
    """`auth`: what auth.settings gave. `sleep`, `clock`: seconds. Connects when first used."""

    def __init__(
        self,
        auth: Mapping[str, Any],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._auth = dict(auth)
        self._sleep = sleep
        self._clock = clock
        self._api: Any = None
        self._headers: list[tuple[str, str]] = []
        self.requests = 0
        self.later: dict[str, list[Any]] = {}  # see requests.eviction: who is not to be asked yet
        self.streams_lists = True  # until a server says that it does not
        self._silent: dict[tuple[str, bool], float] = {}  # part of the API, writes? -> since when it does not answer
        self._granted: float | None = None  # since when it answers this account, without a break
        self.denied: set[str] = set()  # what it denied, and was believed
        self.optional: set[str] = set()  # lists without which all goes on: a denial is believed at once
        self.before_write: Callable[[], None] = lambda: None  # each time; it raises to stop it

    def _connect(self) -> Any:
        if self._api is None:
            config = authentication.configuration(self._auth)
            config.connection_pool_maxsize = 20
            self._headers = authentication.headers(self._auth)
            self._api = kubernetes.client.ApiClient(config)
        return self._api

    def close(self) -> None:
        """Give the connections back. A watch that is open ends at its next event."""
        if self._api is not None:
            self._api.rest_client.pool_manager.clear()

    @property
    def server(self) -> str:
        """URL of the API."""
        return str(self._connect().configuration.host)

    # Requests

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        retry: bool = True,
    ) -> Obj:
        """The answer, an empty dict where it has no JSON body.

        Tries again, with back-off, where the server is busy or does not answer, unless
        `retry` is False. Raises AccessDenied for 401 and 403, NoAnswer, KubeError else, and what
        `before_write` raises.
        """
        pause, attempt, denied = 0.2, 0, None
        part = (path.split("/")[2], method != "GET")  # virt-api may be away, and the rest there
        while True:
            if method != "GET":
                self.before_write()
            try:
                found = self._once(method, path, body, query, content_type, accept)
            except AccessDenied as exc:
                denied = denied or self._clock()
                if (method == "GET" and path in self.optional) or self._believes(exc, denied):
                    raise
                wait = pause
            except KubeError as exc:
                attempt += 1
                wait = exc.retry_after or pause  # the server says it, or we
                if not retry or exc.code not in _BUSY | _AWAY or wait > _LONGEST:
                    raise
                if attempt == TRIES or self._is_silent(part if exc.code else _ALL, exc.behind):
                    raise self._no_answer(exc) from exc
            else:
                for known in (part, _ALL):
                    self._silent.pop(known, None)
                self._granted = self._granted or self._clock()
                return found
            self._sleep(wait)
            pause = min(pause * 2, 5.0)

    def _is_silent(self, part: tuple[str, bool], behind: bool) -> bool:
        """Whether the server has been silent for so long that further requests of this slice should not wait."""
        return self._clock() - self._silent.setdefault(part, self._clock()) >= (_BEHIND_FOR if behind else _SILENT_FOR)

    @staticmethod
    def _no_answer(exc: KubeError) -> KubeError:
        if exc.code not in _AWAY or isinstance(exc, NoAnswer):
            return exc
        return NoAnswer(exc.code, exc.message, exc.asked, exc.body, exc.retry_after)

    def _believes(self, exc: AccessDenied, since: float) -> bool:
        """`since`: when this request was denied first. One that has answered for a while knows who may do what."""
        now = self._clock()
        stood = self._granted is not None and now - self._granted >= DENIES_FOR
        if not stood and now - since < DENIES_FOR and str(exc) not in self.denied:
            return False
        self.denied.add(str(exc))
        return True

    def _once(
        self, method: str, path: str, body: Any, query: Mapping[str, Any] | None, content_type: str, accept: str
    ) -> Obj:
        response = self._send(method, path, body, query, content_type, accept, 30.0)
        try:
            raw = response.read()
        except urllib3.exceptions.HTTPError as exc:
            raise self._broken(str(exc), f"{method} {path}") from exc
        finally:
            response.release_conn()
        if response.status >= 300:
            raise _error(method, path, query, response.status, response.headers, raw)
        return _json(raw)

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, Any] | None,
        content_type: str,
        accept: str,
        timeout: float,
    ) -> Any:
        if not _PATH.fullmatch(path):
            raise KubeError(404, "Kubernetes has no such names", f"{method} {path}")
        api = self._connect()
        headers = urllib3.HTTPHeaderDict({"Accept": accept, "User-Agent": "virtops.maintenance"})
        for name, value in self._headers:
            headers.add(name, value)
        for found in api.configuration.auth_settings().values():
            if found["in"] == "header" and found["value"]:
                headers[found["key"]] = found["value"]
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        url = api.configuration.host + path
        if query:
            url += "?" + urlencode(query)
        self.requests += 1
        try:
            return api.rest_client.pool_manager.request(
                method,
                url,
                body=data,
                headers=headers,
                preload_content=False,
                retries=False,
                timeout=urllib3.Timeout(connect=10.0, read=timeout),
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as exc:
            text = f"{exc}. Is {self.server} up, and is it the right address? {authentication.comes_from(self._auth)}"
            raise self._broken(text, f"{method} {path}") from exc
        except urllib3.exceptions.HTTPError as exc:
            raise self._broken(str(exc), f"{method} {path}") from exc

    def _broken(self, text: str, asked: str) -> NoAnswer:
        """Whoever answers next may have started since."""
        self._granted = None
        return NoAnswer(0, text, asked)

    # What is asked often

    def get(self, path: str) -> Obj:
        return self.request("GET", path)

    def find(self, path: str) -> Obj | None:
        """The object; None when there is none."""
        try:
            return self.get(path)
        except KubeError as exc:
            if exc.code == 404:
                return None
            raise

    def merge(self, path: str, patch: Obj) -> Obj:
        return self.request("PATCH", path, patch, content_type=MERGE)

    def gone(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
        """Like `request`, but 404 counts as success."""
        try:
            self.request(method, path, body, content_type=content_type)
        except KubeError as exc:
            if exc.code != 404:
                raise

    def list(self, path: str, labels: str = "", fields: str = "") -> tuple[list[Obj], str]:
        """All items, page by page, and the version of the list."""
        query: dict[str, Any] = {"limit": PAGE}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        items: list[Obj] = []
        while True:
            try:
                page = self.request("GET", path, query=query)
            except KubeError as exc:
                if exc.code != 410 or "continue" not in query:
                    raise
                # The page is too old. Once more from the start, and in one piece, so that it does not happen again.
                items = []
                del query["continue"], query["limit"]
                continue
            items += page.get("items") or []
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion", ""))
            query["continue"] = meta["continue"]

    def _open_watch(self, path: str, query: Mapping[str, Any], timeout: float) -> Any:
        """Raises as `request`, but for a server that is busy: who watches asks again."""
        denied, pause = None, 0.2
        while True:
            response = self._send("GET", path, None, query, "", "application/json", timeout)
            if response.status < 300:
                return response
            try:
                error = _error("GET", path, query, response.status, response.headers, response.read())
            except (urllib3.exceptions.HTTPError, OSError) as exc:
                raise self._broken(str(exc), f"watch {path}") from exc
            finally:
                response.close()
            denied = denied or self._clock()
            if path in self.optional or not isinstance(error, AccessDenied) or self._believes(error, denied):
                raise error
            self._sleep(pause)
            pause = min(pause * 2, 1.0)

    def watch(self, path: str, version: str, seconds: int, labels: str = "", fields: str = "") -> Iterator[Obj]:
        """Events since `version`, up to `seconds`. Raises KubeError (410: list again).

        Without a version what is there comes first; a bookmark (`ends_first_list`) ends it:
        list and watch in one request. 422: this server does not do that.
        """
        query: dict[str, Any] = {"watch": "true"}
        query["timeoutSeconds"] = seconds
        query["allowWatchBookmarks"] = "true"
        if version:
            query["resourceVersion"] = version
        else:
            query.update(sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        response = self._open_watch(path, query, float(seconds + 10))
        try:
            for line in _lines(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    reported = event["object"]
                    text = reported.get("message", "")
                    raise KubeError(int(reported.get("code", 500)), text, f"watch {path}")
                yield event
        except (urllib3.exceptions.HTTPError, ValueError, OSError) as exc:
            raise self._broken(str(exc), f"watch {path}") from exc
        finally:
            response.close()


def ends_first_list(event: Obj) -> bool:
    """Is it the bookmark after what was there when the watch began?"""
    notes = event["object"]["metadata"].get("annotations") or {}
    return event["type"] == "BOOKMARK" and notes.get("k8s.io/initial-events-end") == "true"


def only(obj: Obj) -> Obj:
    """DeleteOptions for this very object."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": obj["metadata"]["uid"]}}


def _lines(response: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(amt=None, decode_content=True):
        rest += chunk
        *whole, rest = rest.split(b"\n")
        yield from (line for line in whole if line.strip())


def _json(raw: bytes) -> Obj:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(
    method: str, path: str, query: Mapping[str, Any] | None, code: int, headers: Mapping[str, str], raw: bytes
) -> KubeError:
    body = _json(raw)
    text = body.get("message") or raw.decode("utf-8", "replace").strip()
    after = headers.get("Retry-After", "")
    wait = float(after) if after.isdigit() else None
    error = KubeError(code, text, f"{method} {path}", body, wait)
    if code in (401, 403) and not error.admission and not error.ends_with_namespace:
        return AccessDenied(code, text, *_asked(method, path, query))
    return error


def _asked(method: str, path: str, query: Mapping[str, Any] | None) -> tuple[str, str]:
    """Verb and resource of a request, as a role names them."""
    parts = [part for part in path.split("/") if part]
    group, rest = ("", parts[2:]) if parts[:1] == ["api"] else (parts[1], parts[3:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    verb = _VERBS[method]
    if method == "GET" and len(rest) == 1:
        verb = "watch" if query and query.get("watch") else "list"
    if method == "DELETE" and len(rest) == 1:
        verb = "deletecollection"
    resource = "/".join([rest[0], *rest[2:]])
    return verb, f"{resource}.{group}" if group else resource


def names(values: Sequence[str]) -> str:
    """The values as a set-based label selector has them, each once."""
    return ", ".join(sorted(set(values)))
