"""What is done to the fleet: drains by the product's playbooks, and a host dies among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from demo import plays

from lab import GuestSpec, Lab, LabError, rawlog
from lab.procs import wait_for

from . import evidence, scene
from .scene import DIES, LEAVING, STUCK, Scene

Say = Callable[[str], None]


def roll(lab: Lab, which: Scene, say: Say) -> list[str]:
    """All of it. What is wrong with how it went, beside what the count says."""
    scene.start(lab, which)
    say(f"{len(which.homes)} guests run; {scene.OFF} is switched off")
    first, dying = _die_amid(lab, which, say)
    claims = evidence.claims(lab, DIES)
    wrong = [] if claims else [f"no claim of {DIES} stands when the next drains begin"]
    say(f"now {', '.join(which.then)}; claims of {DIES} that stand: {', '.join(claims)}")
    then = drain(lab, which.then)
    wrong += over(lab, [which.first], first)
    say(f"the drain of {which.first} is over")
    wrong += over(lab, which.then, then)
    say(f"so is that of {', '.join(which.then)}")
    wrong += _given_up(dying)
    wrong += _restore(lab, which)
    say("restored")
    evidence.survey(lab, "restored")
    lab.wait_ticking([name for name in which.homes if name not in which.doomed])
    rawlog.wait_for_heartbeat(lab.paths.raw)
    return wrong


def drain(lab: Lab, hosts: Sequence[str]) -> plays.Play:
    evidence.note(lab, hosts, evidence.BEGINS)
    return plays.Play(lab, "drain", {**plays.UNMEASURED, "maintenance_hosts": ",".join(hosts)})


def over(lab: Lab, hosts: Sequence[str], play: plays.Play) -> list[str]:
    """Wait for a drain that has to end well. What is wrong with how it ended."""
    ended = plays.watch(play)
    if ended.code != 0:
        why = ended.last.get("msg") or ended.text[-800:]
        return [f"the drain of {', '.join(hosts)} ended with {ended.code}: {why}"]
    evidence.note(lab, hosts, evidence.OVER)
    certified = {row["host"] for row in ended.drains if row.get("certificate")}
    return [f"{host}: no certificate" for host in hosts if host not in certified]


def _die_amid(lab: Lab, which: Scene, say: Say) -> tuple[plays.Play, plays.Play]:
    """Cut the power of a host amid its own drain and one that sends a guest there.

    Both drains, under way: of the first host, and of the one that is dead now.
    """
    first = drain(lab, [which.first])
    _until_under_way(lab, STUCK, first, DIES)
    lab.hold(which.first)
    say(f"{STUCK[1].name} migrates from {which.first} to {DIES}; {DIES} is drained as well")
    dying = drain(lab, [DIES])
    _until_under_way(lab, LEAVING, dying)
    _until_under_way(lab, STUCK, first, DIES)
    say(f"{LEAVING[1].name} migrates from {DIES}; {DIES} loses its power, and no packet says so")
    lab.unplug(DIES)
    lab.kill(DIES)
    lab.let_go(which.first)
    return first, dying


def _until_under_way(lab: Lab, guest: tuple[str, GuestSpec], play: plays.Play, target: str = "") -> None:
    """Wait until the guest's memory goes to another host (to `target`, if given)."""
    source, spec = guest

    def under_way() -> bool:
        there = evidence.processes(lab, spec.name)
        return lab.moves(source, spec.name) and (target in there if target else len(there) > 1)

    wait_for(lambda: under_way() or not play.running, pause=0.05)
    if not under_way():
        why = "it runs still" if play.running else plays.watch(play).last.get("msg") or play.text
        play.kill()
        raise LabError(f"{spec.name} does not migrate from {source}. The drain: {why}")


def _given_up(play: plays.Play) -> list[str]:
    """Ansible's ssh waits for a host without power as long as TCP does: we do not."""
    if play.running:
        play.kill()
        return []
    return [f"the drain of {DIES}, which is dead, ended well"] if play.wait().code == 0 else []


def _restore(lab: Lab, which: Scene) -> list[str]:
    evidence.note(lab, which.drained, evidence.RESTORED)
    ended = plays.run(lab, "restore", {"maintenance_hosts": ",".join(which.drained)})
    return [] if ended.code == 0 else [f"the restore failed: {ended.last.get('msg') or ended.text}"]
