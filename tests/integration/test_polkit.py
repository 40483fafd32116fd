"""A drain by a user whom libvirt allows single actions by polkit: the rule of docs/security.md.

libvirtd of host-a asks a real polkitd for each call. Without the rule the drain ends before it
touches a VM; with it a VM is stopped and started again, and another one migrates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo import plays, traces

from ansible_collections.virtops.maintenance.tests.integration.test_not_root import AS_USER, USER
from lab import GuestSpec, Host, Lab, own_lab
from lab.procs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.full]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "security.md"
RULE = DOCS.read_text(encoding="utf-8").partition("```js\n")[2].partition("```")[0]
GRANTED = re.findall(r'"([a-z-]+\.[a-z-]+)"', RULE)
# What libvirt's policy file lets anybody do.
ANYBODY = [
    *(f"connect.{what}" for what in ("getattr", "read")),
    *(
        f"connect.search-{what}s"
        for what in ("domain", "interface", "network", "node-device", "secret", "storage-pool")
    ),
    *(
        f"{what}.{verb}"
        for what in ("domain", "interface", "network", "storage-pool", "storage-vol")
        for verb in ("getattr", "read")
    ),
    "node-device.getattr",
    "secret.getattr",
]
RULES = "/etc/polkit-1/rules.d"
STOP = [{"name": "job", "when": "name == 'job'", "strategy": "None", "allow_stop": True}]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("polkit", 2) as lab:
        host = lab.host("host-a")
        host.exec(
            f"useradd -M -d /var/lib/{USER} {USER} && mkdir -m 700 /var/lib/{USER}"
            f" && cp -r /root/.ssh /var/lib/{USER}/ && chown -R {USER} /var/lib/{USER}"
            f" && install -d -o {USER} -m 0700 /run/virtops"
        )
        _ask_polkit(host)
        lab.run("host-a", GuestSpec("job", persistent=False))
        lab.run("host-a", GuestSpec("web", fill_mib=8))
        lab.wait_ticking(["job", "web"])
        yield lab


def _ask_polkit(host: Host) -> None:
    """polkitd with libvirt's actions, and a libvirtd that asks it."""
    actions = [
        f'<action id="org.libvirt.api.{name}"><description>d</description><message>m</message>'
        f"<defaults><allow_any>{answer}</allow_any></defaults></action>"
        for names, answer in ((ANYBODY, "yes"), (GRANTED, "no"))
        for name in names
    ]
    host.exec("mkdir -p /run/actions /run/dbus && chmod 755 /etc/polkit-1 && chown polkitd " + RULES)
    host.exec(["tee", "/run/actions/org.libvirt.api.policy"], stdin=f"<policyconfig>{''.join(actions)}</policyconfig>")
    host.exec(
        "mount --bind /run/actions /usr/share/polkit-1/actions && dbus-daemon --system --fork"
        " && (setsid /usr/lib/polkit-1/polkitd >/var/log/polkitd.log 2>&1 </dev/null &)"
    )
    before = host.exec("pgrep -x libvirtd").stdout
    host.exec(f"echo 'access_drivers = [ \"polkit\" ]' >>/etc/libvirt/libvirtd.conf && kill {before.strip()}")
    assert wait_for(lambda: host.exec("pgrep -x libvirtd", check=False).stdout not in ("", before))
    assert wait_for(lambda: host.exec("virsh uri", check=False).returncode == 0)


def _run(lab: Lab, state: str = "drained") -> plays.Ended:
    peer = {"name": "host-b", "uri": "qemu+ssh://root@host-b/system"}
    options = {"node": "host-a", "peers": [peer], "state": state}
    if state == "drained":
        options["rules"] = STOP
    play = {"hosts": "host-a", "gather_facts": False, "tasks": [{"virtops.maintenance.virt_drain": options}]}
    book = lab.paths.logs / f"{state}.yml"
    book.write_text(json.dumps([play]), encoding="utf-8")
    return plays.run(lab, str(book), AS_USER)


def _vms(lab: Lab) -> dict[str, object]:
    """All but the pools: the peer's, which was read first, has an empty one more."""
    return {k: v for k, v in traces.snapshot(lab).items() if k[1] != "pools"}


def test_without_the_rule_no_vm_is_touched_and_with_it_all_of_it_goes(lab: Lab) -> None:
    host = lab.host("host-a")
    before = _vms(lab)
    ended = _run(lab)
    assert ended.code != 0
    assert "The user may not manage libvirt" in ended.text, ended.text
    assert _vms(lab) == before
    host.exec(["tee", f"{RULES}/50-virtops.rules"], stdin=RULE)
    assert wait_for(lambda: "Reloading rules" in host.exec("cat /var/log/polkitd.log").stdout)
    lab.announce_stop("job")
    ended = _run(lab)
    assert ended.code == 0, ended.text
    assert ended.vm("job")["verdict"] == "stopped" and ended.vm("web")["verdict"] == "moved"
    assert (traces.defined(host), traces.running(lab.host("host-b"))) == ([], ["web"])
    # It is no more than that: what the rule does not name is refused.
    refused = host.exec(["su", USER, "-c", "virsh -c qemu:///system net-destroy lan"], check=False)
    assert "access denied" in refused.stderr
    ended = _run(lab, "active")
    assert ended.code == 0, ended.text
    assert traces.running(host) == ["job"]
    lab.wait_ticking(["job", "web"])
