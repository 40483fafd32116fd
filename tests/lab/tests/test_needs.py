"""Where the lab cannot run, its tests skip, and fail where that is asked for."""

from __future__ import annotations

import pytest

from lab import needs


def test_skip_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTOPS_REQUIRE_LAB", raising=False)
    monkeypatch.setattr(needs, "missing", lambda: ["nbdkit is missing"])
    with pytest.raises(pytest.skip.Exception, match="nbdkit is missing"):
        needs.need_lab()


def test_required_means_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTOPS_REQUIRE_LAB", "1")
    monkeypatch.setattr(needs, "missing", lambda: ["nbdkit is missing"])
    with pytest.raises(pytest.fail.Exception, match="nbdkit is missing"):
        needs.need_lab()


def test_a_missing_command_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda *_args, **_more: None)
    assert "nbdkit is missing (package nbdkit)" in needs.missing()


def test_not_root_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    assert any("not root" in line for line in needs.missing())
