"""Hosts of another release of Debian beside the machine's own, and a host that goes from one to the other."""

from __future__ import annotations

import http.server
import re
import threading
from pathlib import Path

import pytest

from lab import GuestSpec, LabError, checker, hostfiles, own_lab, rawlog, release
from lab.names import Paths

NEW = "trixie"


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases, whose roots have an /etc and no more."""
    for name in release.RELEASES:
        etc = tmp_path / "roots" / name / "etc"
        for path, text in (
            ("shadow", "root:!:1:::::\n"),
            ("group", "root:x:0:\n"),
            ("passwd", "root:x:0:0::/root:/bin/sh\n"),
            ("os-release", name),
            ("ssh/sshd_config", "Debian's"),
            ("libvirt/qemu.conf", "Debian's"),
        ):
            (etc / path).parent.mkdir(parents=True, exist_ok=True)
            (etc / path).write_text(text)
    monkeypatch.setattr(release, "root", lambda name: tmp_path / "roots" / name)


def test_an_upgraded_host_has_the_new_etc_and_its_own_settings(roots: None, tmp_path: Path) -> None:
    paths = Paths(tmp_path / "lab")
    etc = paths.host("host-a") / "etc"
    etc.mkdir(parents=True)
    (etc / "virtops-lab-release").write_text(f"{release.OWN}\n")
    assert hostfiles.install_release(paths, "host-a") == release.OWN
    assert not (etc / "libvirt").exists()
    (etc / "libvirt/qemu").mkdir(parents=True)
    (etc / "libvirt/qemu/web.xml").write_text("<domain/>")
    (etc / "ssh/sshd_config").write_text("the lab's")

    (etc / "virtops-lab-release").write_text(f"{NEW}\n")
    assert hostfiles.install_release(paths, "host-a") == NEW
    assert (etc / "os-release").read_text() == NEW
    assert (etc / "libvirt/qemu/web.xml").read_text() == "<domain/>"
    assert not (etc / "libvirt/qemu.conf").exists()
    assert (etc / "ssh/sshd_config").read_text() == "the lab's"
    assert "libvirt-qemu" in (etc / "passwd").read_text()
    assert "root:*:" in (etc / "shadow").read_text()


def test_a_release_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(LabError, match="no release 'sid'; there are own, trixie"):
        release.known("sid")


def test_what_is_missing_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTOPS_ROOTS", str(tmp_path))
    assert release.missing(release.OWN) == ""
    monkeypatch.setattr(release, "_mirror", lambda: "")
    monkeypatch.setattr(release.shutil, "which", lambda _name: "/usr/bin/mmdebstrap")
    assert release.missing(NEW) == "release trixie: apt has no mirror of Debian here"
    monkeypatch.setattr(release.shutil, "which", lambda _name: None)
    assert release.missing(NEW) == "release trixie: mmdebstrap is missing (package mmdebstrap)"
    release.root(NEW).mkdir()
    assert release.missing(NEW) == ""


class _Mirror(http.server.BaseHTTPRequestHandler):
    """Has nothing, and says what its server was told to say."""

    def do_GET(self) -> None:
        self.send_error(self.server.answer)  # type: ignore[attr-defined]

    def log_message(self, *_words: object) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [(404, "the mirror of this machine does not have it"), (503, "the mirror of this machine does not answer: ")],
)
def test_a_mirror_that_does_not_have_it_is_not_one_that_is_silent(
    answer: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTOPS_ROOTS", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(release.shutil, "which", lambda _name: "/usr/bin/mmdebstrap")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Mirror)
    server.answer = answer  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(release, "_mirror", lambda: f"http://127.0.0.1:{server.server_port}/")
    try:
        first = release.missing(NEW)
    finally:
        server.shutdown()
        server.server_close()
    assert first.startswith(f"release trixie: {said}")
    assert ("503" in first) == (answer == 503)
    assert release.missing(NEW) == first, "asked again"


@pytest.mark.lab
@pytest.mark.full
def test_a_guest_goes_to_a_host_of_the_new_release_and_its_old_one_follows() -> None:
    lacking = release.missing(NEW)
    if lacking:
        pytest.skip(lacking)
    with own_lab("release", 2, releases={"host-a": release.OWN, "host-b": NEW}) as lab:
        versions = [_qemu(lab.host(name).virsh("version")) for name in ("host-a", "host-b")]
        assert versions[0] < versions[1]
        lab.host("host-b").exec("touch /usr/only-here")
        assert not (release.root(NEW) / "usr/only-here").exists()
        lab.run("host-a", GuestSpec("web", disks=[("shared", 8)], dirty_mib_s=2))
        lab.wait_ticking(["web"])
        uri = lab.host("host-b").peer_uri
        lab.host("host-a").virsh("migrate", "--live", "--p2p", "--persistent", "--undefinesource", "web", uri)
        # As an upgrade ends: what is installed is another release, and the host is rebooted.
        lab.host("host-a").exec(f"echo {NEW} >/etc/virtops-lab-release")
        lab.reboot("host-a")
        assert _qemu(lab.host("host-a").virsh("version")) == versions[1]
        back = lab.host("host-a").peer_uri
        lab.host("host-b").virsh("migrate", "--live", "--p2p", "--persistent", "--undefinesource", "web", back)
        lab.wait_ticking(["web"])
        rawlog.wait_for_heartbeat(lab.paths.raw)
        totals = checker.check(lab.paths.raw, set())["totals"]
        assert (totals["live"], totals["lost"], totals["twice"], totals["memory_errors"]) == (1, 0, 0, 0)


def _qemu(text: str) -> tuple[int, ...]:
    found = re.search(r"Running hypervisor: QEMU ([\d.]+)", text)
    assert found is not None, text
    return tuple(int(part) for part in found[1].split("."))
