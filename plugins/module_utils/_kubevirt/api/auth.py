"""How the API is reached: the options of kubernetes.core, with the same environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

try:
    import kubernetes
    import kubernetes.client
    import kubernetes.config
    import urllib3
    import yaml  # kubernetes needs it too
    from kubernetes.config import ConfigException, kube_config
except ImportError:  # said when it is needed
    kubernetes = None  # type: ignore[assignment]
    urllib3 = None  # type: ignore[assignment]
    ConfigException = ValueError

from ..._core.model.addresses import passwords_in
from ..._playbook.hidden import ADDRESS, OptionType, hide
from ..._playbook.lives import end_cleanly
from .errors import KubernetesMissing


class _Unshown(dict):  # type: ignore[type-arg]
    """A kubeconfig, which the host's log does not have: what it shows of an option is its text."""

    def __str__(self) -> str:
        return "a kubeconfig"


def _kubeconfig(value: Any) -> Any:
    return _Unshown(value) if isinstance(value, Mapping) else value


class ConfigError(Exception):
    """There is no usable configuration for the API."""


_HEADERS: dict[str, Any] = {
    "proxy_basic_auth": {"type": "str", "no_log": True},
    "basic_auth": {"type": "str", "no_log": True},
    "user_agent": {"type": "str"},
}
AUTH_SPEC: dict[str, Any] = {
    "kubeconfig": {"type": OptionType("raw", _kubeconfig)},
    "context": {"type": "str"},
    "host": {"type": ADDRESS},
    "api_key": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
    "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
    "client_cert": {"type": "path", "aliases": ["cert_file"]},
    "client_key": {"type": "path", "aliases": ["key_file"]},
    "proxy": {"type": ADDRESS},
    "no_proxy": {"type": "str"},
    "proxy_headers": {"type": "dict", "options": _HEADERS},
    "persist_config": {"type": "bool"},
    "impersonate_user": {"type": "str"},
    "impersonate_groups": {"type": "list", "elements": "str"},
}
# Option -> what follows K8S_AUTH_ in the environment
_ENVIRONMENT = {
    "kubeconfig": "KUBECONFIG",
    "context": "CONTEXT",
    "host": "HOST",
    "api_key": "API_KEY",
    "username": "USERNAME",
    "password": "PASSWORD",
    "validate_certs": "VERIFY_SSL",
    "ca_cert": "SSL_CA_CERT",
    "client_cert": "CERT_FILE",
    "client_key": "KEY_FILE",
    "proxy": "PROXY",
    "no_proxy": "NO_PROXY",
    "persist_config": "PERSIST_CONFIG",
    "impersonate_user": "IMPERSONATE_USER",
    "impersonate_groups": "IMPERSONATE_GROUPS",
}
# Of a user in a kubeconfig; hiding these would only spoil messages.
_NO_SECRET = frozenset(
    {
        *("username", "apiVersion", "command", "interactiveMode", "installHint", "name"),
        *("client-certificate", "client-key", "tokenFile", "client-certificate-data"),
    }
)
_MEMORY: dict[bytes, str] = {}
_FALSE = frozenset({"0", "false", "no", "off", "f", "n"})


def settings(params: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The options, and where one is not given, the environment's."""
    found: dict[str, Any] = {}
    for option, name in _ENVIRONMENT.items():
        value = params.get(option)
        if value is None:
            text = environ.get(f"K8S_AUTH_{name}")
            value = _typed(option, text) if text is not None else None
        found[option] = value
    headers = dict(params.get("proxy_headers") or {})
    for key in _HEADERS:
        text = environ.get(f"K8S_AUTH_PROXY_HEADERS_{key.upper()}")
        if headers.get(key) is None and text is not None:
            headers[key] = text
    found["proxy_headers"] = {k: v for k, v in headers.items() if v is not None}
    return found


def secrets_of(kubeconfig: Mapping[str, Any]) -> set[str]:
    """Return the secrets in a kubeconfig, which may not be printed: tokens, passwords, keys, what a plugin is given."""
    return _texts(kubeconfig.get("users"))


def _texts(value: Any) -> set[str]:
    """Every text below, but for names of programs and files."""
    if isinstance(value, Mapping):
        return {text for key, below in value.items() if key not in _NO_SECRET for text in _texts(below)}
    if isinstance(value, list):
        return {text for below in value for text in _texts(below)}
    return {value} if isinstance(value, str) and value else set()


def _typed(option: str, text: str) -> Any:
    if option in ("validate_certs", "persist_config"):
        return text.strip().lower() not in _FALSE
    if option == "impersonate_groups":
        return [group for group in text.split(",") if group]
    return text


def configuration(auth: Mapping[str, Any]) -> Any:
    """A kubernetes.client.Configuration. Reads the kubeconfig; asks no server.

    Raises KubernetesMissing, ConfigError.
    """
    if kubernetes is None:
        raise KubernetesMissing(
            "The Python package kubernetes is needed where this module runs: "
            "pip install kubernetes, or use an execution environment that has it."
        )
    config = kubernetes.client.Configuration()
    host, whole = auth["host"], False
    if host:
        whole = bool(auth["api_key"] or (auth["username"] and auth["password"]))
        whole = whole or bool(auth["client_cert"] and auth["client_key"])
    if not whole:
        try:
            _load(auth, config)
        except (ConfigException, OSError, ValueError, yaml.YAMLError) as exc:
            text = f"No usable configuration for the Kubernetes API in {_place(auth)}: {_why(auth, exc)}"
            raise ConfigError(text) from exc
    if host:
        config.host = host
    if auth["api_key"]:
        # Under the one name up to version 36 of the package, under the other from 37 on.
        bearer = f"Bearer {auth['api_key']}"
        config.api_key = {"authorization": bearer, "BearerToken": bearer}
        config.refresh_api_key_hook = None
    for option, attribute in (
        ("ca_cert", "ssl_ca_cert"),
        ("client_cert", "cert_file"),
        ("client_key", "key_file"),
        ("validate_certs", "verify_ssl"),
        ("proxy", "proxy"),
        ("no_proxy", "no_proxy"),
        ("username", "username"),
        ("password", "password"),
    ):
        if auth[option] is not None:
            setattr(config, attribute, auth[option])
    if auth["proxy_headers"]:
        config.proxy_headers = urllib3.util.make_headers(**auth["proxy_headers"])
    return config


def _place(auth: Mapping[str, Any]) -> str:
    """Where the configuration was looked for, as the user named it."""
    kubeconfig = auth["kubeconfig"]
    if isinstance(kubeconfig, Mapping):
        return "the dictionary that kubeconfig is"
    if kubeconfig:
        return f"kubeconfig {kubeconfig}"
    # The whole path: with become it is another user's.
    default = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    return f"{default} (neither the option kubeconfig nor K8S_AUTH_KUBECONFIG is set)"


def comes_from(auth: Mapping[str, Any]) -> str:
    """Where the address of the API comes from, in a sentence."""
    if auth["host"]:
        return "It comes from the option host or K8S_AUTH_HOST."
    if not (auth["kubeconfig"] or auth["context"]) and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "It comes from the pod in which this runs."
    return f"It comes from {_place(auth)}."


def _why(auth: Mapping[str, Any], exc: Exception) -> str:
    path = auth["kubeconfig"]
    if isinstance(path, str) and path and not os.path.exists(os.path.expanduser(path)):
        return "there is no such file. Give the path of a kubeconfig on the host that runs the module."
    if auth["context"] and f"Expected object with name {auth['context']} in " in str(exc):
        return f"it has no context {auth['context']}. kubectl config get-contexts lists the contexts that it has."
    return " ".join(str(exc).split())


def _in_memory(content: Any, *_where: Any, **_how: Any) -> str:
    """The path of what the package would write into a temporary file: a key, a certificate. It has no name in any
    directory, and goes with this process, however that ends."""
    data = content.encode() if isinstance(content, str) else content
    if data not in _MEMORY:
        number = os.memfd_create("virtops")
        os.write(number, data)
        _MEMORY[data] = f"/proc/self/fd/{number}"
    return _MEMORY[data]


def _keep_in_memory() -> None:
    """Where the system has such files, and the package its function; else it writes, and removes at its end."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        kube_config._create_temp_file_with_content = _in_memory


def _load(auth: Mapping[str, Any], config: Any) -> None:
    _keep_in_memory()
    persist = {} if auth["persist_config"] is None else {"persist_config": auth["persist_config"]}
    kubeconfig, context = auth["kubeconfig"], auth["context"]
    more = {"client_configuration": config, **persist}
    if isinstance(kubeconfig, Mapping):
        kubernetes.config.load_kube_config_from_dict(kubeconfig, context=context, **more)
    elif kubeconfig or context:
        path = os.path.expanduser(kubeconfig) if kubeconfig else None
        kubernetes.config.load_kube_config(config_file=path, context=context, **more)
    else:
        try:
            kubernetes.config.load_incluster_config(client_configuration=config)
        except kubernetes.config.ConfigException:
            kubernetes.config.load_kube_config(**more)


def headers(auth: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Headers that go with each request, the bearer token left aside. One for each group."""
    found: list[tuple[str, str]] = []
    if auth["impersonate_user"]:
        found.append(("Impersonate-User", auth["impersonate_user"]))
    found += [("Impersonate-Group", group) for group in auth["impersonate_groups"] or []]
    if auth["username"] and auth["password"] and not auth["api_key"]:
        pair = f"{auth['username']}:{auth['password']}"
        found += list(urllib3.util.make_headers(basic_auth=pair).items())
    return found


def auth_of(module: Any) -> dict[str, Any]:
    """How the API is reached: the options, else K8S_AUTH_* of the environment.

    A kubeconfig given as a dictionary holds secrets that no option names, and the address of a
    proxy may: the module's output (`-vvv`) prints all options, so they are hidden there. What came
    from the environment may still be in the text of an error.
    """
    kubeconfig = module.params["kubeconfig"]
    if isinstance(kubeconfig, Mapping):
        hide(module, secrets_of(kubeconfig))
    end_cleanly()
    found = settings(module.params, os.environ)
    hidden = {found[key] for key in ("api_key", "password") if found[key]}
    hidden.update(*(passwords_in(found[key] or "") for key in ("host", "proxy")))
    hidden.update(text for key, text in found["proxy_headers"].items() if _HEADERS[key].get("no_log"))
    hide(module, hidden)
    return found
