"""Fence agents that are as they should be, and as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._playbook.fence import FenceError, fence

# The power state is a file. What was read from standard input stands in another one.
AGENT = """#!/bin/sh
cd "$(dirname "$0")"
options=$(cat)
echo "$options" >> told
action=$(echo "$options" | sed -n 's/^action=//p')
{broken}
case $action in
status) test -e on && exit 0 || exit 2 ;;
off) rm -f on ;;
esac
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "on").touch()
    return tmp_path


def agent(folder: Path, broken: str = "") -> str:
    path = folder / "fence_it"
    path.write_text(AGENT.format(broken=broken))
    path.chmod(0o755)
    return str(path)


def test_off_is_a_proof_when_it_is_read_back(host: Path) -> None:
    options = {"ip": "192.0.2.1", "password": "s3cret", "lanplus": True, "action": "on"}
    result = fence("host-a", agent(host), options, 5, acts=True)
    assert result["powered_off"] and result["changed"]
    assert (result["proof"]["kind"], result["proof"]["how"]) == ("agent", agent(host))
    told = (host / "told").read_text()
    assert "lanplus=1\n" in told and "password=s3cret\n" in told and "action=on" not in told


def test_what_is_off_is_not_switched_off_again(host: Path) -> None:
    (host / "on").unlink()
    assert fence("host-a", agent(host), {}, 5, acts=True)["changed"] is False
    assert "action=off" not in (host / "told").read_text()


def test_check_mode_reads_only(host: Path) -> None:
    result = fence("host-a", agent(host), {}, 5, acts=False)
    assert (result["powered_off"], result["changed"], (host / "on").exists()) == (False, True, True)
    assert "proof" not in result


@pytest.mark.parametrize(
    ("broken", "kind", "words"),
    [
        ('test "$action" = off && exit 0', "StillOn", "its status is still on"),
        ("echo Unable to connect/login; exit 1", "AgentFailed", "failed at status: Unable to connect/login"),
        ('test "$action" = off && rm on && exit 1', "AgentFailed", "failed at off"),
        ("sleep 5", "AgentTimedOut", "did not answer status within 1 s"),
        ("exit 7", "AgentFailed", "exit code 7"),
    ],
)
def test_each_way_in_which_it_fails_has_its_words(host: Path, broken: str, kind: str, words: str) -> None:
    with pytest.raises(FenceError, match=words) as caught:
        fence("host-a", agent(host, broken), {}, 1, acts=True)
    assert type(caught.value).__name__ == kind
    assert str(caught.value).endswith("Nothing was started.")


def test_a_status_that_cannot_be_read_for_a_moment_after_the_power_went_is_read_again(host: Path) -> None:
    """A BMC that has just switched its host off is busy, or asks for a new session."""
    broken = 'test -e on || { echo "$action" >> tries; test "$(wc -l < tries)" -lt 3 && exit 1; }'
    result = fence("host-a", agent(host, broken), {}, 20, acts=True)
    assert result["powered_off"] and not (host / "on").exists()
    assert (host / "told").read_text().count("action=off") == 1


def test_an_agent_that_is_not_there(host: Path) -> None:
    with pytest.raises(FenceError, match="install fence-agents there, or name a host that has it"):
        fence("host-a", "fence_of_nobody", {}, 1, acts=True)
