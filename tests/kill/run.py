"""make test-kill: kill -9 at seeded moments of drains; the same command again must carry on.

ansible-playbook with all that it started, the module on the host and the holder on the host
are killed in turn. Each time the host must end drained, with no VM lost or run twice, by the
raw log of the guests, and with no claim or mark left. Nothing may stop but the one guest of
each host that is to be stopped, and restore has to start that one again. A guest that hangs is an
error; a kernel panic, which is QEMU's doing when it emulates the CPU, is printed and excused.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import plays

from kill import case as cases
from kill.program import guarded, keep, options, say, seeded
from lab import Lab, LabError, missing
from lab.names import lab_name

# Slow enough that a migration takes about a second, so that kills meet some.
MBIT = 300


def prepare(name: str, source: str) -> Lab:
    """A fresh lab of two hosts; all guests on `source` but for those that stay at home."""
    Lab.down(name)
    lab = Lab.up(name, 2)
    for host in lab.hosts:
        lab.shape(host, MBIT)
    for spec in cases.GUESTS:
        lab.run(source, spec)
    for host, spec in cases.STAYS.items():
        lab.run(host, spec)
    lab.wait_ticking([*cases.NAMES, *cases.MAY_STOP])
    return lab


def measure(lab: Lab) -> float:
    """Seconds from cordon to end of a drain that nobody disturbs, there and back: the longer."""
    spans = []
    for source in cases.HOSTS:
        play = cases.drain(lab, source)
        cordon = cases.store(lab.host(source)) / "cordon"
        while play.running and not cordon.exists():
            time.sleep(0.01)
        began = time.monotonic()
        ended = plays.watch(play)
        spans.append(time.monotonic() - began)
        wrong = [] if ended.code == 0 else [str(ended.last.get("msg") or ended.text)]
        wrong += cases.judge(lab, lab.host(source)) + cases.restore(lab, lab.host(source))
        if wrong:
            raise LabError("a drain that nobody disturbed failed: " + "; ".join(wrong))
    return max(spans)


def tell(outcome: cases.Outcome, args: argparse.Namespace, lab: Lab) -> None:
    ill = f"; panicked: {', '.join(outcome.ill)}" if outcome.ill else ""
    missed = f", {outcome.missed} drains were over before" if outcome.missed else ""
    say(
        f"{outcome.case} ({outcome.seen}{missed}): {'ok' if not outcome.wrong else 'WRONG'}, "
        f"{outcome.runs} run(s) more, {outcome.seconds:.0f} s{ill}"
    )
    if not outcome.wrong:
        return
    for text in outcome.wrong:
        say(f"    {text}")
    kept = keep("kill", f"case-{outcome.case.number}", (lab.paths.raw, lab.paths.logs))
    say(f"    raw log and logs: {kept}")
    again = f"--seed {args.seed} --span {args.span:.1f} --only {outcome.case.number}"
    say(f"    repeat it: make test-kill KILL_ARGS='{again}'")


def run(name: str, args: argparse.Namespace) -> int:
    lab = prepare(name, cases.HOSTS[0])
    if args.span is None:
        args.span = measure(lab)
    say(f"seed {args.seed}; a drain left alone takes {args.span:.1f} s from cordon to end")
    numbers = args.only or list(range(1, args.cases + 1))
    good = ill = 0
    for number in numbers:
        case = cases.draw(args.seed, number, args.span)
        if not cases.ready(lab, case.source):
            lab = prepare(name, case.source)
        outcome = cases.run(lab, case)
        tell(outcome, args, lab)
        good += not outcome.wrong
        ill += len(outcome.ill)
        if outcome.wrong and number != numbers[-1]:
            lab = prepare(name, cases.draw(args.seed, number + 1, args.span).source)
        elif outcome.ill and number != numbers[-1]:
            cases.renew(lab, cases.draw(args.seed, number + 1, args.span).source, outcome.ill)
    if ill:
        say(f"{ill} guest(s) panicked after a migration (TCG); each was made anew")
    say(f"test-kill: cases={len(numbers)} ok={good}")
    return 0 if good == len(numbers) else 1


def parse() -> argparse.Namespace:
    parser = options("test-kill", __doc__)
    parser.add_argument("--cases", type=int, default=20, help="how many (default 20)")
    parser.add_argument("--span", type=float, help="length of a drain, from an earlier run")
    return seeded(parser)


def main() -> int:
    args = parse()
    lacking = missing()
    if lacking:
        say("The lab cannot run on this machine:\n  " + "\n  ".join(lacking))
        return 2
    name = f"{lab_name()[:24]}-kill"
    return guarded("test-kill", lambda: run(name, args), lambda: None if args.keep else Lab.down(name))


if __name__ == "__main__":
    sys.exit(main())
