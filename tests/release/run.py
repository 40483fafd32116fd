"""make test-release: the tarball, as a stranger installs it.

A new Python environment with ansible-core and what README.md requires for KubeVirt nodes, a mount
namespace in which this clone is not there, an empty home. In it: install the file, read every page
of documentation, check the syntax of every playbook, and run those that a user tries first against
a simulated cluster. The simulator alone runs outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubesim.process import Process
from kubesim.remote import Remote

ROOT = Path(__file__).resolve().parents[2]
NAME = "virtops.maintenance"
# 866 on 30 November 2026, of which the plugins are 698: what decides is code of ours alone, 2.5 MB with its comments,
# and no file of it is for tests. The guides that are shipped are 67, the hashes and the licence 39. What a user of
# the installed collection does not need is left out in galaxy.yml. Galaxy takes gzip alone; xz would make 621 of it.
MOST_KB = 880
NODES = ("node-1", "node-2", "node-3")
INVENTORY = (
    f"nodes:\n  hosts: {{{', '.join(f'{name}: ' for name in NODES)}}}\n  vars: {{maintenance_platform: kubevirt}}\n"
)
# What only reads, or only says what it would do, for which hosts, and what it prints.
FIRST = (
    ("plan", "nodes", "It fits"),
    ("preflight", "nodes", "node-1"),
    ("status", "nodes", "node-1"),
    ("drain --check", "node-1", "default/web  would be migrated"),
    ("restore --check", "node-1", "node-1"),
    # Nobody reaches the simulated nodes, which a roll with reboots would say.
    ("rolling_maintenance --check -e maintenance_reboot=never", "nodes", "default/web  migrate  node-1"),
)
HIDE = 'mount -t tmpfs none "$0" && exec "$@"'


class Wrong(Exception):
    """What a stranger would stumble over."""


@dataclass
class Stranger:
    """Somebody in `home`, with the programs of `tools`, and without this clone."""

    home: Path
    tools: Path
    kubeconfig: Path

    def run(self, program: str, *arguments: str) -> str:
        """Its output. Raises Wrong unless it ends with 0."""
        command = [str(self.tools / "bin" / program), *arguments]
        environment = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": f"{self.tools / 'bin'}:/usr/bin:/bin",
            "K8S_AUTH_KUBECONFIG": str(self.kubeconfig),
        }
        hidden = ["unshare", "--mount", "sh", "-c", HIDE, str(ROOT), *command]
        done = subprocess.run(
            hidden,
            env=environment,
            cwd=self.home,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            raise Wrong(f"{program} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout


def environment_of_a_stranger(folder: Path) -> Path:
    """Programs as README.md says: ansible-core, kubernetes, jmespath; the versions are those of build/venv."""
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    wanted = subprocess.run(
        [sys.executable, "-m", "pip", "freeze"], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.splitlines()
    pins = [line for line in wanted if line.partition("==")[0] in {"ansible-core", "kubernetes", "jmespath"}]
    subprocess.run([tools / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *pins], check=True)
    return tools


def pages(installed: Path) -> Iterator[tuple[str, str]]:
    """(type, name) of what ansible-doc can show."""
    for kind, folder in (("module", "modules"), ("filter", "filter"), ("lookup", "lookup")):
        for path in sorted((installed / "plugins" / folder).glob("[!_]*.py")):
            yield kind, f"{NAME}.{path.stem}"
    # The role `variables` has no options of its own, and each argument spec costs a play one more task.
    for path in sorted((installed / "roles").glob("*/meta/argument_specs.yml")):
        yield "role", f"{NAME}.{path.parents[1].name}"


def install(stranger: Stranger, tarball: Path) -> Path:
    size = tarball.stat().st_size // 1000
    if size > MOST_KB:
        raise Wrong(f"{tarball.name} has {size} kB, and may have {MOST_KB}")
    print(f"{tarball.name}: {size} kB", flush=True)
    stranger.run("ansible-galaxy", "collection", "install", str(tarball), "--offline")
    return stranger.home / ".ansible" / "collections" / "ansible_collections" / "virtops" / "maintenance"


def read_all(stranger: Stranger, installed: Path) -> tuple[int, int]:
    """How many modules, and how many pages in all."""
    found = list(pages(installed))
    for kind in ("module", "filter", "lookup", "role"):
        names = [name for one, name in found if one == kind]
        text = stranger.run("ansible-doc", "--type", kind, *names)
        lacking = [name for name in names if name.upper() not in text.upper()]
        if lacking:
            raise Wrong(f"ansible-doc shows nothing of {', '.join(lacking)}")
    return sum(kind == "module" for kind, _name in found), len(found)


def play_all(stranger: Stranger, installed: Path) -> int:
    inventory = stranger.home / "nodes.yml"
    inventory.write_text(INVENTORY, encoding="utf-8")
    playbooks = [path.stem for path in sorted((installed / "playbooks").glob("*.yml"))]
    for name in playbooks:
        stranger.run("ansible-playbook", "-i", str(inventory), f"{NAME}.{name}", "--syntax-check")
    for line, hosts, printed in FIRST:
        name, *options = line.split()
        text = stranger.run(
            "ansible-playbook", "-i", str(inventory), f"{NAME}.{name}", "-e", f"maintenance_hosts={hosts}", *options
        )
        if printed not in text:
            raise Wrong(f"{line} does not print {printed!r}:\n{text}")
        print(f"{line}: {printed}", flush=True)
    return len(playbooks)


def copy_project(stranger: Stranger, installed: Path) -> Path:
    """The project for AWX, as its page says. Its playbooks import those that are installed."""
    project = shutil.copytree(installed / "docs" / "awx", stranger.home / "awx")
    for path in sorted(project.glob("*.yml")):
        if "import_playbook" in path.read_text(encoding="utf-8"):
            stranger.run("ansible-playbook", "-i", "nodes.yml", str(path), "--syntax-check")
    text = stranger.run(
        "ansible-playbook", "-i", "nodes.yml", str(project / "plan.yml"), "-e", "maintenance_hosts=nodes"
    )
    if "It fits" not in text:
        raise Wrong(f"the project's plan does not print 'It fits':\n{text}")
    return project


def check_environments(stranger: Stranger, project: Path) -> None:
    """ansible-builder takes the definitions of execution environments, and all packages that they name exist."""
    stranger.run("pip", "install", "--quiet", "--disable-pip-version-check", "ansible-builder", "bindep")
    for definition in sorted(project.glob("execution-environment*.yml")):
        context = stranger.home / definition.stem
        stranger.run("ansible-builder", "create", "--file", str(definition), "--context", str(context))
        python, system = (str(context / "_build" / name) for name in ("requirements.txt", "bindep.txt"))
        stranger.run("pip", "download", "--quiet", "--dest", str(context / "wheels"), "-r", python)
        packages = stranger.run("bindep", "--list_all", "newline", "--file", system).split()
        if packages:
            simulated = ["apt-get", "--simulate", "--quiet", "install", *packages]
            subprocess.run(simulated, check=True, stdout=subprocess.DEVNULL)
        print(f"{definition.name}: {', '.join(packages)}", flush=True)


def main() -> int:
    tarball = next((ROOT / "build" / "dist").glob("*.tar.gz"))
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        (folder / "cluster").mkdir()
        copy = folder / tarball.name
        copy.write_bytes(tarball.read_bytes())
        with Process(folder / "cluster") as server:
            cluster = Remote(server.kubeconfig())
            for node in NODES:
                cluster.add_node(node)
            cluster.add_vm("web", NODES[0], strategy="LiveMigrate")
            stranger = Stranger(folder / "home", environment_of_a_stranger(folder), server.kubeconfig())
            try:
                installed = install(stranger, copy)
                modules, docs = read_all(stranger, installed)
                playbooks = play_all(stranger, installed)
                check_environments(stranger, copy_project(stranger, installed))
            except Wrong as wrong:
                print(f"test-release: {wrong}", flush=True)
                return 1
    print(f"test-release: playbooks={playbooks} modules={modules} docs={docs} ok", flush=True)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
