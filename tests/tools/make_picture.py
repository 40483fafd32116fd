"""make picture: docs/roll.svg, a roll as a terminal shows it. The lines are those of a real run on the simulator.

Ansible's own lines are left out, as README says of what it shows.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

import readme
from kubevirt.account import TOKEN, documented_rules
from kubevirt.plays import Plays

from kubesim import Kubesim

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "roll.svg"
VMS = {"node-1": ("shop", "mail"), "node-2": ("db",), "node-3": ("wiki", "build")}
COMMAND = (
    "ansible-playbook -i nodes.yml virtops.maintenance.rolling_maintenance"
    " -e maintenance_hosts=nodes -e maintenance_reboot=never"
)
# What Ansible prints of itself.
_OWN = re.compile(r"((PLAY|TASK) |(ok|changed|skipping|included): |\S+ +: ok=).*|\s*")
WIDTH, LINE, LETTER = 112, 18, 7.83  # characters; pixels
HARD = "\u00a0"  # an image may fold other spaces
BACK, TEXT, PROMPT, GOOD = "#1e2127", "#d7dae0", "#8fbf7f", "#7fb4df"


def run() -> list[str]:
    """The lines of the collection."""
    with tempfile.TemporaryDirectory() as name, Kubesim() as sim:
        folder = Path(name)
        for node in VMS:
            sim.add_node(node)
        sim.api.access.rules[TOKEN] = documented_rules()
        for node, names in VMS.items():
            for vm in names:
                sim.add_vm(vm, node, migrate_seconds="7")
        (folder / "nodes.yml").write_text(readme.inventory("nodes.yml"), encoding="utf-8")
        done: subprocess.CompletedProcess[str] = Plays(sim, folder).typed(COMMAND)
    if done.returncode:
        raise SystemExit(f"picture: the roll failed:\n{done.stdout}")
    return [line.rstrip() for line in done.stdout.splitlines() if not _OWN.fullmatch(line)]


def colour(line: str) -> str:
    if line.startswith("$"):
        return PROMPT
    return GOOD if " is done in " in line or " of 3 done" in line else TEXT


def svg(lines: list[str]) -> str:
    wide, high = round(WIDTH * LETTER) + 40, LINE * len(lines) + 64
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">\n'
        "<!-- Made by make picture from a real run. -->\n"
        "<title>A roll over three nodes in a terminal</title>\n"
        f'<rect width="{wide}" height="{high}" rx="8" fill="{BACK}"/>\n'
    )
    dots = "".join(
        f'<circle cx="{22 + 20 * place}" cy="20" r="6" fill="{fill}"/>\n'
        for place, fill in enumerate(("#e06c75", "#e5c07b", "#98c379"))
    )
    rows = "".join(
        f'<text x="20" y="{58 + LINE * place}" fill="{colour(line)}">{escape(line).replace(" ", HARD)}</text>\n'
        for place, line in enumerate(lines)
    )
    style = 'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13"'
    return f"{head}{dots}<g {style}>\n{rows}</g>\n</svg>\n"


def main() -> int:
    first, *options = COMMAND.split(" -e ")
    typed = [f"$ {first} \\", "    " + " ".join(f"-e {one}" for one in options)]
    lines = typed + run()
    long = [line for line in lines if len(line) > WIDTH]
    if long:
        raise SystemExit(f"picture: longer than {WIDTH} characters: {long}")
    OUT.write_text(svg(lines), encoding="utf-8")
    print(f"picture: {OUT.relative_to(ROOT)} lines={len(lines)} ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
