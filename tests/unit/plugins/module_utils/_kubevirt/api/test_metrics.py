"""The option metrics, and what is made of a server's series. Asks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import (
    _query,
    rates_of,
    source_of,
)
from kubesim.metrics import series

SERVER = "https://prometheus:9091"
NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"url": "prometheus:9091"}, "metrics.url is 'prometheus:9091'; expected http"),
        ({"url": "ftp://prometheus"}, "metrics.url is 'ftp://prometheus'"),
        ({"url": "https://a b"}, "metrics.url is 'https://a b'"),
        ({"url": "https://"}, "metrics.url is 'https://'"),
        ({"url": "https://prometheus:none"}, "metrics.url: Port could not be cast"),
        ({"url": f"{SERVER}/api/v1/query?query=up"}, "expected http"),
        ({"token": "t"}, "metrics.url is missing"),
        ({"url": SERVER, "timeout": 0.0}, "metrics.timeout is 0: more than 0"),
        ({"url": SERVER, "timeout": 60.0}, "metrics.timeout is 60: more than 0 and up to 15 s"),
        ({"url": SERVER, "ca_cert": "/nowhere/ca.pem"}, "metrics.ca_cert: /nowhere/ca.pem cannot"),
        ({"url": SERVER, "labels": {'a="b"': "c"}}, "is not a valid label name"),
    ],
)
def test_a_wrong_option_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as found:
        source_of(given)
    assert text in str(found.value)


@pytest.mark.parametrize(
    "given",
    [
        {"url": "https://me:s3cret@prometheus"},
        {"url": "https://s3cret@prometheus"},
        {"url": SERVER, "token": "s3cret\nHost: other"},
        {"url": SERVER, "token": "two s3cret"},
    ],
)
def test_a_secret_is_not_repeated(given: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as found:
        source_of(given)
    assert "s3cret" not in str(found.value)


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing", encoding="ascii")
    with pytest.raises(PolicyError, match="cannot be used"):
        source_of({"url": SERVER, "ca_cert": str(tmp_path / "ca.pem")})


def test_what_is_not_given_asks_nobody() -> None:
    for given in (None, {}, {"url": None, "token": None, "validate_certs": True, "timeout": 5.0}):
        assert source_of(given) is None


def test_a_token_is_not_shown() -> None:
    source = source_of({"url": f"{SERVER}/", "token": " s3cret\n"})
    assert source is not None and source.url == SERVER
    assert source.token == "s3cret" and "s3cret" not in repr(source)


def test_a_drain_asks_only_where_a_rule_wants_it() -> None:
    params = {"metrics": {"url": SERVER}, "rules": [{"when": "memory_mib > `1`"}, {"when": None}]}
    assert options.metrics(params, always=False) is None
    assert options.metrics(params, always=True) is not None
    params["rules"] = [{"when": "dirty_rate > `1`"}]
    assert options.metrics(params, always=False) is not None
    with pytest.raises(PolicyError):  # wrong is wrong, wanted or not
        options.metrics({"metrics": {"url": "x"}}, always=False)


def test_the_query_names_the_node_and_what_else_is_wanted() -> None:
    metric = "kubevirt_vmi_dirty_rate_bytes_per_second"
    source = source_of({"url": SERVER, "labels": {"cluster": 'ea"st'}})
    assert source is not None
    assert _query(source, "n1") == metric + '{cluster="ea\\"st",node="n1"}[5m]'
    plain = source_of({"url": SERVER})
    assert plain is not None and _query(plain, "") == metric + "{}[5m]"


@pytest.mark.parametrize(
    ("found", "rate"),
    [
        ([series("n1", "vm", (1, 7), (2, 8))], 8.0),
        ([series("n1", "vm", (2, 8), (1, 7))], 8.0),
        # Both virt-handlers tell of a VM that migrates.
        ([series("n1", "vm", (1, 7), pod="a"), series("n1", "vm", (2, 0), pod="b")], 0.0),
        ([series("n1", "vm", (2, 0), pod="b"), series("n1", "vm", (1, 7), pod="a")], 0.0),
        ([series("n1", "vm", (1, 0), pod="b"), series("n1", "vm", (1, 7), pod="a")], 7.0),
        # Where it was before, and a VM of that name in another namespace.
        ([series("n1", "vm", (1, 7)), series("n2", "vm", (2, 9))], 7.0),
        ([series("n1", "vm", (1, 7)), series("n1", "vm", (2, 9), space="other")], 7.0),
        ([series("n1", "vm", (1, 7), (2, NAN))], 7.0),
        ([series("n1", "vm", (1, 7), (2, float("inf")), (3, -1.0))], 7.0),
        ([series("n1", "vm", (1, NAN))], None),
        ([series("n1", "vm")], None),
        ([], None),
        ([series("n1", "vm", (1, 7), space="kubevirt", exported_namespace="default")], 7.0),
        ([{"metric": {}, "values": [[1, "5"]]}], None),
    ],
)
def test_the_newest_sample_of_the_node_counts(found: list[Any], rate: float | None) -> None:
    assert rates_of(found).get("n1/default/vm") == rate
