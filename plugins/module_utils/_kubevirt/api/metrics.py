"""Read from Prometheus how fast guests write to their memory, as KubeVirt's metrics report it.

The API has no dirty rate, so a server that is not the cluster's own is asked. Nothing but the
document depends on it: what it does not report is not known, and the reason is a warning.
"""

from __future__ import annotations

import json
import math
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

try:
    import urllib3
except ImportError:  # said by auth.configuration
    urllib3 = None  # type: ignore[assignment]

from ..._core.model.policy import PolicyError
from ..._playbook.hidden import ADDRESS
from ..objects import facts

Obj = dict[str, Any]
MIB = 2**20
PATH = "/api/v1/query"
# Since KubeVirt 1.6. Labels: node, namespace and name of the VMI; bytes each second.
METRIC = "kubevirt_vmi_dirty_rate_bytes_per_second"
# Prometheus' own patience with a series that has no new sample. All samples of that time are asked
# for, since only these come with their times: of two series of one VM the newer one counts.
WINDOW = "5m"
# Seconds: metrics are collected about every 30; a server that failed may be back sooner.
FRESH = 30.0
AGAIN = 10.0
# No slice may outlive its Lease for a server that hangs.
LONGEST = 15.0
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

METRICS_SPEC: dict[str, Any] = {
    "type": "dict",
    "default": {},
    "options": {
        "url": {"type": ADDRESS},
        "token": {"type": "str", "no_log": True},
        "ca_cert": {"type": "path"},
        "validate_certs": {"type": "bool", "default": True},
        "timeout": {"type": "float", "default": 5.0},
        "labels": {"type": "dict"},
    },
}


@dataclass(frozen=True)
class Source:
    """Where metrics are asked for. `labels`: what else a series must have, name to value."""

    url: str
    token: str = field(default="", repr=False)
    ca_cert: str | None = None
    validate_certs: bool = True
    timeout: float = 5.0
    labels: Mapping[str, str] = field(default_factory=dict)


class MetricsError(Exception):
    """The server gave no metrics; the text says what it did instead."""


def source_of(given: Mapping[str, Any] | None) -> Source | None:
    """The option `metrics`. None: there is no server to ask. Raises PolicyError; asks nobody."""
    known = {key: value for key, value in (given or {}).items() if value not in (None, "")}
    if "url" not in known:
        if known.get("token") or known.get("ca_cert") or known.get("labels"):
            raise PolicyError("metrics.url is missing: without it no server is asked")
        return None
    token = str(known.get("token", "")).strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise PolicyError("metrics.token is not a bearer token: it contains spaces, line ends or the like")
    labels = {str(key): str(value) for key, value in (known.get("labels") or {}).items()}
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise PolicyError(f"metrics.labels: {name!r} is not a valid label name")
    timeout = float(known.get("timeout", 5.0))
    if not 0 < timeout <= LONGEST:
        raise PolicyError(f"metrics.timeout is {timeout:g}: more than 0 and up to {LONGEST:g} s")
    return Source(
        _url(str(known["url"]).strip()),
        token,
        _ca(known.get("ca_cert")),
        bool(known.get("validate_certs", True)),
        timeout,
        labels,
    )


def _url(text: str) -> str:
    """Without the path of the query. What may hold a password is not repeated."""
    wanted = "expected http(s)://host[:port][/path], to which /api/v1/query is added"
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError as exc:
        raise PolicyError(f"metrics.url: {exc}; {wanted}") from None
    if parts.username is not None or parts.password is not None:
        raise PolicyError("metrics.url holds a user or a password; use metrics.token")
    spaced = any(letter.isspace() for letter in text)
    more = parts.query or parts.fragment or spaced
    if parts.scheme not in ("http", "https") or not host or more:
        raise PolicyError(f"metrics.url is {text!r}; {wanted}")
    return text.rstrip("/").removesuffix(PATH)


def _ca(path: str | None) -> str | None:
    if path is not None:
        try:
            ssl.create_default_context(cafile=path)
        except OSError as exc:  # ssl.SSLError is one
            raise PolicyError(f"metrics.ca_cert: {path} cannot be used: {exc}") from None
    return path


class DirtyRates:
    """MiB/s of the VMs of one node, or of all nodes. Asked for now and then, kept meanwhile.

    `warning`: why the last question had no answer; empty if it had. `answered`: when one had.
    """

    def __init__(self, source: Source | None = None, node: str = "") -> None:
        self._source = source
        self._node = node
        self._pause = FRESH
        self._asked = float("-inf")
        self.answered = 0.0
        self.values: dict[str, float] = {}
        self.warning = ""

    def resume(self, values: Mapping[str, float], answered: float) -> None:
        """Resume from the state that the previous slice left."""
        if self._source is not None:
            self.values, self._asked, self.answered = dict(values), answered, answered

    @property
    def result_fields(self) -> dict[str, list[str]]:
        """The fields for a module's result."""
        return {"warnings": [self.warning]} if self.warning else {}

    def of(self, vmi: Obj) -> float | None:
        """None: not known."""
        return self.values.get(_key(str(facts.status(vmi).get("nodeName")), *facts.key(vmi)))

    def refresh(self, now: float) -> None:
        """Ask, unless that was done a short time ago. `now`: seconds, of any one clock.

        A rate holds until a newer one is reported: KubeVirt does not measure a VM
        while it migrates (from 1.9 on), and one answer that is lost must not undecide a rule.
        """
        if self._source is None or 0 <= now - self._asked < self._pause:
            return
        self._asked = now
        try:
            self.values.update(rates_of(_ask(self._source, self._node)))
        except MetricsError as exc:
            self._pause = AGAIN
            self.warning = (
                f"The metrics server {self._source.url} {exc}. Without a value from it the dirty_rate of "
                "a VM is not known: a rule that compares it uses its `unknown` answer."
            )
            return
        self._pause, self.warning, self.answered = FRESH, "", now
        if not self.values:
            where = f" of node {self._node}" if self._node else ""
            self.warning = (
                f"The metrics server {self._source.url} has no {METRIC}{where} for the last "
                f"{WINDOW}. KubeVirt has it from 1.6 on; does this server collect KubeVirt's "
                "metrics? No dirty_rate is known."
            )


def rates_of(series: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The newest numeric sample of each VM on each node; if two are equally new, the higher one.

    Two series of a VM: both virt-handlers tell of one that migrates, and one that was started
    anew is another target to Prometheus. Raises what a wrong form raises.
    """
    newest: dict[str, tuple[float, float]] = {}
    for one in series:
        labels = one["metric"]
        # So named where the server keeps `namespace` for where it collects.
        namespace = labels.get("exported_namespace") or labels.get("namespace", "")
        key = _key(labels.get("node", ""), namespace, labels.get("name", ""))
        for at, text in one["values"]:
            value = float(text)
            if math.isfinite(value) and value >= 0:
                found = (float(at), value)
                newest[key] = max(newest.get(key, found), found)
    return {key: round(value / MIB, 3) for key, (_at, value) in newest.items()}


def _key(node: str, namespace: str, name: str) -> str:
    return f"{node}/{namespace}/{name}"


def _query(source: Source, node: str) -> str:
    wanted = {**source.labels, **({"node": node} if node else {})}
    # PromQL quotes as JSON does.
    matchers = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(wanted.items()))
    return f"{METRIC}{{{matchers}}}[{WINDOW}]"


def _ask(source: Source, node: str) -> list[Mapping[str, Any]]:
    """The series, each with its samples. Raises MetricsError."""
    code, raw = _get(source, _query(source, node))
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if code != 200:
        raise MetricsError(f"answered {code}{_hint(source, code)}{_said(body, raw)}")
    if not isinstance(body, dict):
        raise MetricsError(f"did not answer with Prometheus JSON{_said(body, raw)}")
    if body.get("status") != "success":
        raise MetricsError(f"answered an error{_said(body, raw)}")
    try:
        series = body["data"]["result"]
        rates_of(series)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MetricsError(f"answered in a form that is not Prometheus's{_said(None, raw)}") from None
    return list(series)


def _hint(source: Source, code: int) -> str:
    if code == 401:
        return " (it does not accept the token)" if source.token else " (it wants a token)"
    return " (the token may not query)" if code == 403 else ""


def _said(body: Any, raw: bytes) -> str:
    """The server's own words, on one line, as the end of a message; empty: it said nothing."""
    text = str(body.get("error") or body.get("message") or "") if isinstance(body, dict) else ""
    text = " ".join((text or raw.decode("utf-8", "replace")).split())[:200]
    return f": {text}" if text else ""


def _get(source: Source, query: str) -> tuple[int, bytes]:
    """Status and body. No redirect is followed: a page to log in has no metrics."""
    headers = {"Accept": "application/json", "User-Agent": "virtops.maintenance"}
    if source.token:
        headers["Authorization"] = f"Bearer {source.token}"
    checks = "CERT_REQUIRED" if source.validate_certs else "CERT_NONE"
    pool = urllib3.PoolManager(cert_reqs=checks, ca_certs=source.ca_cert)
    try:
        answer = pool.request(
            "GET",
            source.url + PATH,
            fields={"query": query},
            headers=headers,
            retries=False,
            redirect=False,
            timeout=urllib3.Timeout(total=source.timeout),
        )
    except urllib3.exceptions.HTTPError as exc:
        # Without the address of an object, which differs each time.
        text = re.sub(r"<[^<>]*>:? ?", "", str(exc))
        raise MetricsError(f"does not answer: {text}") from exc
    finally:
        pool.clear()
    return int(answer.status), answer.data
