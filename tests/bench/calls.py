"""What a call of a module costs before it does anything: its payload as Ansible builds it, and processor seconds.

Each payload is run as a host runs it, with arguments with which it ends at once, until it has its bytecode and then
`--times`. The calls before that, ansible.builtin.ping, and the same calls with nothing kept are beside it. Medians.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, module_loader
from ansible.template import Templar

KEPT = Path("/run/virtops-maintenance")
MODULES = {"virt": "virtops.maintenance.virt_drain", "kubevirt": "virtops.maintenance.kubevirt_drain"}
PING = "ansible.builtin.ping"


def payload(name: str, folder: Path) -> Path:
    """The file that Ansible would send."""
    args = {"_ansible_version": "2", "_ansible_remote_tmp": str(folder), "_ansible_tracebacks_for": []}
    built = modify_module(
        module_name=name,
        module_path=module_loader.find_plugin(name),
        module_args=args,
        templar=Templar(DataLoader()),
        task_vars={"ansible_python_interpreter": sys.executable},
        module_compression="ZIP_DEFLATED",
    )
    path = folder / name
    path.write_bytes(built.b_module_data)
    return path


def seconds(path: Path) -> float:
    """Of the processor, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    times = range(parser.parse_args().times)
    if os.geteuid() != 0:
        print("bench-calls: run it as root, whose bytecode is in /run")
        return 2
    init_plugin_loader()
    found, multiples = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sent = payload(PING, folder)
        ping = statistics.median(seconds(sent) for _time in times)
        print(f"ping: {sent.stat().st_size / 1000:.0f} kB, {ping:.2f} s")
        KEPT.mkdir(mode=0o700, exist_ok=True)
        for short, module in MODULES.items():
            sent = payload(module, folder)
            KEPT.chmod(0o755)  # open to others: nothing of it is run
            plain = statistics.median(seconds(sent) for _time in times)
            KEPT.chmod(0o700)
            first = seconds(sent)
            later = statistics.median(seconds(sent) for _time in times)
            print(f"{module}: nothing kept {plain:.2f} s, the first call {first:.2f} s, later calls {later:.2f} s")
            found += [f"{short}_kb={sent.stat().st_size / 1000:.0f}", f"{short}_cpu_s={later:.2f}"]
            multiples.append(f"{short}_cpu_pings={later / ping:.2f}")
    print(f"bench-calls: {' '.join([*found, f'ping_cpu_s={ping:.2f}', *multiples])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
