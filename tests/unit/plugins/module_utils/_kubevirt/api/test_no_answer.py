"""Where nobody listens the error names the address, and where that comes from; a list that has no end by pages."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import settings
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError


@pytest.fixture
def url() -> str:
    """Of a port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"https://127.0.0.1:{one.getsockname()[1]}"


def _config(url: str) -> dict[str, Any]:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "secret-token"}}]
    clusters = [{"name": "c", "cluster": {"server": url}}]
    return {"clusters": clusters, "users": users, "contexts": [context], "current-context": "c"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kubeconfig": True}, "the dictionary that kubeconfig is"),
        ({"host": True, "api_key": "secret-token"}, "the option host or K8S_AUTH_HOST"),
    ],
)
def test_the_address_and_where_it_comes_from(url: str, given: dict[str, Any], said: str) -> None:
    values = {"kubeconfig": _config(url), "host": url}
    auth = settings({key: values[key] if value is True else value for key, value in given.items()}, {})
    client = Client(auth, sleep=lambda _seconds: None)
    with pytest.raises(KubeError) as failed:
        client.get("/api/v1/nodes")
    assert failed.value.code == 0
    assert f"Is {url} up" in str(failed.value) and said in str(failed.value)
    assert "secret-token" not in str(failed.value)


def test_a_list_whose_pages_get_too_old_is_read_in_one_piece(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Else it begins anew for ever, where the server forgets faster than it is read."""
    client = Client(settings({"host": url}, {}), sleep=lambda _seconds: None)
    queries: list[dict[str, Any]] = []

    def request(_method: str, path: str, query: dict[str, Any]) -> dict[str, Any]:
        queries.append(dict(query))
        if "continue" in query:
            raise KubeError(410, "The provided continue parameter is too old", path)
        if "limit" in query:
            return {"items": [{"n": 1}], "metadata": {"continue": "x"}}
        return {"items": [{"n": 1}, {"n": 2}], "metadata": {"resourceVersion": "7"}}

    monkeypatch.setattr(client, "request", request)
    assert client.list("/api/v1/nodes") == ([{"n": 1}, {"n": 2}], "7")
    assert len(queries) == 3
