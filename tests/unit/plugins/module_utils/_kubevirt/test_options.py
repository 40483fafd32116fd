from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import auth_of


def test_the_secrets_of_a_kubeconfig_are_not_printed() -> None:
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api"}}],
        "users": [
            {"name": "u", "user": {"token": "tok", "client-key-data": "key", "username": "joe"}},
            {"name": "v", "user": {"exec": {"command": "aws", "env": [{"name": "K", "value": "s"}]}}},
        ],
    }
    params = {"kubeconfig": kubeconfig}
    module = SimpleNamespace(params=params, no_log_values=set())
    assert auth_of(module)["kubeconfig"] == kubeconfig
    assert module.no_log_values == {"tok", "key", "s"}
