"""The errors of the API, as exceptions that say what was asked."""

from __future__ import annotations

import re
from typing import Any

_ADMISSION = (
    "denied the request",  # of a webhook, or of a ValidatingAdmissionPolicy
    "denied request",
    "exceeded quota",
    "violates PodSecurity",
)


class KubernetesMissing(Exception):
    """The Python package kubernetes is not installed where the module runs."""


class KubeError(Exception):
    """The API refused a request, or did not answer.

    `code`: HTTP status, 0 for no answer. `message`: the server's. `body`: the whole answer where
    it was JSON.
    """

    def __init__(
        self,
        code: int,
        message: str,
        asked: str = "",
        body: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{asked}: {code or 'no answer'}: {message}")
        self.code = code
        self.message = message
        self.asked = asked
        self.body = body or {}
        self.retry_after = retry_after

    @property
    def admission(self) -> bool:
        """Did a webhook or a policy refuse it? They may do that with any status."""
        return any(words in self.message for words in _ADMISSION)

    @property
    def behind(self) -> bool:
        """Does the API server answer, and somebody not whom it has to ask: virt-api, a webhook?"""
        return "failed calling webhook" in self.message or "error trying to reach service" in self.message

    @property
    def ends_with_namespace(self) -> bool:
        """Is it refused because the namespace is being deleted? Nothing is created there any more: the 403 means no
        missing right."""
        return "because it is being terminated" in self.message

    @property
    def causes(self) -> list[str]:
        """`details.causes` of a Status: reason and message."""
        found = (self.body.get("details") or {}).get("causes") or []
        return [f"{c.get('reason', '')}: {c.get('message', '')}" for c in found]


class NoAnswer(KubeError):
    """The API does not answer, or is not ready: it may be back in a minute.

    `cursor`: for the slice that goes on, of one that was ended by this.
    """

    cursor = ""


class AccessDenied(KubeError):
    """The account is not accepted or lacks a right: verb and resource are named (401, 403)."""

    def __init__(self, code: int, message: str, verb: str, resource: str) -> None:
        super().__init__(code, message, f"{verb} {resource}")
        if code == 401 and not message and "/" in resource:
            # So virt-api refuses an account that has the short name of the subresource alone.
            self.text = (
                f"Not allowed: {verb} {resource} (401 with an empty answer). Grant {verb} on the "
                "whole path of the subresource."
            )
        elif code == 401:
            path = ", or grant the verb on the whole subresource path" if "/" in resource else ""
            self.text = (
                f"The API does not accept the credentials ({verb} {resource}: 401 {message}). Renew the token{path}."
            )
        else:
            self.text = f"Not allowed: {verb} {resource}{_for_whom(message)}"

    def __str__(self) -> str:
        return self.text


def _for_whom(message: str) -> str:
    """The end of the error: the namespace and the account that the server's sentence names; the whole sentence where it
    has another form."""
    found = re.search(r'User "([^"]+)" cannot .*?(?:in the namespace "([^"]+)")?$', message)
    if found is None:
        return f". {message}"
    where = f" in namespace {found.group(2)}" if found.group(2) else ""
    return f"{where}, as {found.group(1)}."


class LockHeld(Exception):
    """Another run is working on the node right now.

    `seen`: for Lock.take. `waits`: a sentence."""

    def __init__(self, text: str, seen: tuple[str, float] = ("", 0.0), waits: str = "") -> None:
        super().__init__(text)
        self.seen = seen
        self.waits = waits


class NodeUnknown(Exception):
    """There is no such node."""
