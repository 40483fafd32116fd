"""Error answers of the API: Status objects, in the API server's words."""

from __future__ import annotations

from typing import Any

from .kinds import Kind


class ApiError(Exception):
    """An answer that is not 2xx. `body`: a Status object, or plain text."""

    def __init__(self, code: int, body: dict[str, Any] | str, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{code}: {body}")
        self.code = code
        self.body = body
        self.headers = headers or {}


def status(
    code: int,
    message: str,
    reason: str = "",
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> ApiError:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details:
        body["details"] = details
    body["code"] = code
    return ApiError(code, body, headers)


def _details(kind: Kind, name: str) -> dict[str, Any]:
    found = {"name": name, "kind": kind.plural}
    if kind.group:
        found["group"] = kind.group
    return found


def not_found(kind: Kind, name: str) -> ApiError:
    return status(404, f'{kind.qualified} "{name}" not found', "NotFound", _details(kind, name))


def exists(kind: Kind, name: str) -> ApiError:
    text = f'{kind.qualified} "{name}" already exists'
    return status(409, text, "AlreadyExists", _details(kind, name))


def conflict(kind: Kind, name: str) -> ApiError:
    text = (
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    return status(409, text, "Conflict", _details(kind, name))


def terminating(kind: Kind, name: str, namespace: str) -> ApiError:
    """As the admission plugin NamespaceLifecycle says it."""
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    return status(403, f'{kind.qualified} "{name}" is forbidden: {text}', "Forbidden", _details(kind, name))


def denied(webhook: str, text: str, code: int = 400, **more: Any) -> ApiError:
    """What a validating webhook refused."""
    return status(code, f'admission webhook "{webhook}" denied the request: {text}', **more)


def invalid(webhook: str, text: str, field: str, cause: str) -> ApiError:
    causes = [{"reason": cause, "message": text, **({"field": field} if field else {})}]
    return denied(webhook, text, 422, reason="Invalid", details={"causes": causes})


def internal(text: str) -> ApiError:
    return status(500, f"Internal error occurred: {text}", "InternalError", {"causes": [{"message": text}]})


def expired(wanted: int, oldest: int) -> ApiError:
    return status(410, f"too old resource version: {wanted} ({oldest})", "Expired")
