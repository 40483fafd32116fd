"""Keys and certificates of a kubeconfig are in no file that has a name."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import (
    ConfigError,
    configuration,
    settings,
)

TEXTS = {"certificate-authority-data": "the ca", "client-certificate-data": "the cert", "client-key-data": "the key"}


def kubeconfig() -> dict[str, object]:
    ca, cert, key = [{name: base64.b64encode(text.encode()).decode()} for name, text in TEXTS.items()]
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443", **ca}}],
        "users": [{"name": "u", "user": {**cert, **key}}],
    }


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files without a name")
@pytest.mark.parametrize("as_file", [True, False])
def test_a_private_key_is_in_no_temporary_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, as_file: bool) -> None:
    """A module that is killed removes nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    given: object = kubeconfig()
    if as_file:
        given = str(tmp_path / "kubeconfig")
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig()))
    config = configuration(settings({"kubeconfig": given}, {}))
    paths = (config.ssl_ca_cert, config.cert_file, config.key_file)
    for _each_connection_reads_them_anew in range(2):
        assert [Path(path).read_text() for path in paths] == [*TEXTS.values()]
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_a_context_that_is_not_there_is_told_as_that() -> None:
    pytest.importorskip("kubernetes")
    with pytest.raises(ConfigError, match="it has no context east") as told:
        configuration(settings({"kubeconfig": kubeconfig(), "context": "east"}, {}))
    assert "Invalid" not in str(told.value)
