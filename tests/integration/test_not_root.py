"""A drain by a user that is not root: what docs/security.md says suffices, and no less does.

libvirt's socket belongs to a group, as unix_sock_group and unix_sock_rw_perms of libvirtd.conf make
it. One thing after the other is granted; what is missing is named, and nothing changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from demo import plays, traces

from lab import GuestSpec, Lab, own_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

USER = "virtops-op"
AS_USER = {
    "ansible_become": True,
    "ansible_become_user": USER,
    "ansible_become_method": "su",
    "ansible_pipelining": True,
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A user with a key for host-b, in no group yet; the socket of host-a is its group's."""
    with own_lab("notroot", 2) as lab:
        lab.host("host-a").exec(
            f"groupadd virtadmin && useradd -M -d /var/lib/{USER} {USER}"
            f" && mkdir -m 700 /var/lib/{USER} && cp -r /root/.ssh /var/lib/{USER}/"
            f" && chown -R {USER} /var/lib/{USER}"
            " && chgrp virtadmin /run/libvirt/libvirt-sock && chmod 770 /run/libvirt/libvirt-sock"
        )
        lab.run("host-a", GuestSpec("web", fill_mib=8))
        lab.wait_ticking(["web"])
        yield lab


def drain(lab: Lab) -> plays.Ended:
    peer = {"name": "host-b", "uri": "qemu+ssh://root@host-b/system"}
    task = {"virtops.maintenance.virt_drain": {"node": "host-a", "peers": [peer]}}
    book = lab.paths.logs / "drain.yml"
    play = {"hosts": "host-a", "gather_facts": False, "tasks": [task]}
    book.write_text(json.dumps([play]), encoding="utf-8")
    return plays.run(lab, str(book), AS_USER)


def test_what_is_missing_is_named_and_what_is_documented_suffices(lab: Lab) -> None:
    host = lab.host("host-a")
    before = traces.snapshot(lab)
    first = drain(lab)
    assert first.code != 0
    assert "/run/virtops" in first.text
    assert "docs/security.md" in first.text
    host.exec(f"install -d -o {USER} -m 0700 /run/virtops")
    second = drain(lab)
    assert second.code != 0
    assert "The user may not manage libvirt" in second.text, second.text
    assert "Traceback" not in first.text + second.text
    assert traces.snapshot(lab) == before
    host.exec(f"usermod -aG virtadmin {USER}")
    ended = drain(lab)
    assert ended.code == 0, ended.text
    assert ended.vm("web")["verdict"] == "moved"
    assert traces.running(lab.host("host-b")) == ["web"]
    lab.wait_ticking(["web"])
