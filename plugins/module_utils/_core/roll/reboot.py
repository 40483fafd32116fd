"""Does a host need a reboot, from what its own tools answer? What became of one that was rebooted? Pure.

A host on which nothing can answer is rebooted: a maintenance without it would claim what nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import words
from .record import HostEntry, Roll, Stage

FILE = "/run/reboot-required"
PACKAGES = FILE + ".pkgs"
# What writes that file when a reboot is needed: where one of these is, its absence says something.
WRITERS = (
    "/usr/share/update-notifier/notify-reboot-required",
    "/etc/kernel/postinst.d/unattended-upgrades",
    "/etc/kernel/postinst.d/reboot-notifier",
)
NEEDRESTART = ("needrestart", "-b", "-k", "-r", "l")
DNF = ("dnf", "-q", "needs-restarting", "-r")
# Seconds: dnf waits for the lock of another dnf, which may hang, and the host is out of service meanwhile.
ANSWERS_WITHIN = 60
_TIMED_OUT = (124, 137)  # exit codes of timeout: it has ended the command, or killed it
_NAMED = 3  # packages
_AFTER = (Stage.CHECKING, Stage.RESTORING)


@dataclass(frozen=True)
class Told:
    """The answer of one tool (`who`). `needed` None: it could not tell, and `why` has the reason."""

    who: str
    needed: bool | None
    why: str = ""


@dataclass(frozen=True)
class Need:
    """`reboot`: do it. `known`: somebody answered. `message`: a line for people."""

    reboot: bool
    known: bool
    message: str


def need(host: str, told: Sequence[Told]) -> Need:
    """One that says yes is enough."""
    yes = [one for one in told if one.needed]
    no = [one for one in told if one.needed is False]
    if yes:
        return Need(True, True, f"{host} needs a reboot: {_all(yes)}")
    if no:
        return Need(False, True, f"{host} is not rebooted because it does not need it: {_all(no)}")
    asked = f" ({_all(told)})" if told else f" (no {FILE}, needrestart or dnf needs-restarting)"
    return Need(True, False, f"{host} is rebooted because nothing there says whether it needs it{asked}")


def need_of_lost(host: str) -> Need:
    """The answer for a host that could not be asked. If it is gone, its reboot fails, and the roll stops there."""
    return Need(reboot=True, known=False, message=f"{host} did not say whether it needs a reboot")


def begins(patience: int) -> str:
    """`patience`: seconds."""
    return f"reboots; it is waited for, for {patience} s at most (maintenance_reboot_timeout)"


def was_done() -> str:
    return "is not rebooted: it has rebooted since the roll recorded that it would"


def in_vain(host: str, why: str, elapsed: float, before: str, now: str) -> str:
    """Explain a failed reboot. Ansible reports the same (`why`) whether a host never went down or did not come
    up. `before`, `now`: its boot id; empty: it is not known."""
    if not now:
        late = f"it has not come up, {elapsed:.0f} s after it was asked to reboot"
        return words.is_lost(host, late if why.startswith("Timed out") else why)
    if now != before:
        return why
    return (
        f"{host} never went down: its boot id is still the same, {elapsed:.0f} s after it was asked to reboot. Find out"
        " why on the host, for example with systemctl list-jobs, systemd-inhibit and journalctl"
    )


def recovers(entry: HostEntry, asked: Mapping[str, Any]) -> bool:
    """Does the roll recover this host, which failed? `asked`: `on_dead`, what the user wants of a host that does not
    come back from its reboot, and `fenced`, whether it has a fence agent. Whether it is dead the recovery sees."""
    rebooted = entry.failed_in is Stage.REBOOTING or (bool(entry.boot_id) and entry.failed_in in _AFTER)
    return rebooted and asked.get("on_dead") == "recover" and bool(asked.get("fenced"))


def emptied_before(roll: Roll | None, host: str, run: str) -> str:
    """When the roll of `run` emptied this host, for whose return from the reboot it waits. Empty: it does not. Of
    another roll, or of an earlier command of this one, it is not known what the host did since."""
    entry = roll.hosts.get(host) if roll is not None and run and roll.run == run else None
    return entry.emptied if entry is not None and Stage.REBOOTING in (entry.stage, entry.failed_in) else ""


def with_recovery(why: str, asked: Mapping[str, Any]) -> str:
    """Why the host failed, and what came of its recovery. `asked`: `result`, what that returned, or its `failure`."""
    failure, found = str(asked.get("failure") or ""), asked.get("result")
    if failure:
        return f"{why}. Its recovery is incomplete (maintenance_on_dead): {failure.strip().rstrip('.')}"
    if not found:
        return why
    became = str(found.get("message")).rstrip(".")
    if found["phase"] == "Recovered":
        proof = (found.get("stats") or {}).get("proof")
        became = f"its VMs run elsewhere{f' ({proof})' if proof else ''}"
    return f"{why}. Its recovery (maintenance_on_dead): {became}"


def _all(told: Sequence[Told]) -> str:
    return "; ".join(f"{one.who} says {one.why}" for one in told)


def within(command: Sequence[str]) -> list[str]:
    """The command, with an end to how long it may take."""
    return ["timeout", "-k", "5", str(ANSWERS_WITHIN), *command]


def of_file(exists: bool, packages: str, written: bool) -> Told | None:
    """`packages`: the text beside it. `written`: something on the host would write the file. None: no answer."""
    if exists:
        names = sorted(set(packages.split()))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return Told(FILE, True, f"yes, for {', '.join(names[:_NAMED])}{more}" if names else "yes")
    return Told(FILE, False, "no") if written else None


def of_needrestart(rc: int, out: str, err: str) -> Told:
    """Its batch mode: 1 for the running kernel or microcode is good, more is an upgrade that is pending."""
    found = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
    kernel, microcode = found.get("NEEDRESTART-KSTA", "0"), found.get("NEEDRESTART-UCSTA", "0")
    if kernel in ("2", "3"):
        running, newer = found.get("NEEDRESTART-KCUR", "?"), found.get("NEEDRESTART-KEXP", "?")
        return Told("needrestart", True, f"yes, for the kernel {newer} ({running} runs)")
    if microcode == "2":
        return Told("needrestart", True, "yes, for the CPU's microcode")
    if kernel == "1":
        return Told("needrestart", False, "no")
    return Told("needrestart", None, f"nothing of the kernel ({_why(rc, err)})")


def of_dnf(rc: int, out: str, err: str) -> Told:
    """Exit code 1 is an answer only with its words: without the plugin dnf ends with 1 too."""
    if "reboot is required" in out.lower():
        return Told("dnf needs-restarting", True, "yes")
    if rc == 0:
        return Told("dnf needs-restarting", False, "no")
    return Told("dnf needs-restarting", None, f"nothing ({_why(rc, err, out)})")


def _why(rc: int, *texts: str) -> str:
    if rc in _TIMED_OUT:
        return f"no answer in {ANSWERS_WITHIN} s"
    return next(filter(None, map(_last, texts)), f"exit code {rc}")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
