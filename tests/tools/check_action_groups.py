"""meta/runtime.yml and the modules' documentation name the same action groups.

A module says so in its documentation:

    attributes:
      action_group:
        description: Use C(group/virtops.maintenance.libvirt) in C(module_defaults) ...
        support: full
        membership:
          - virtops.maintenance.libvirt

Usage: check_action_groups.py COLLECTION_ROOT, with ANSIBLE_COLLECTIONS_PATH set.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

COLLECTION = "virtops.maintenance"


def documented(modules: list[str]) -> dict[str, set[str]]:
    names = [f"{COLLECTION}.{module}" for module in modules]
    answer = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "--type", "module", "--json", *names],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    docs = json.loads(answer)
    groups = {}
    for module, name in zip(modules, names, strict=True):
        doc = docs.get(name, {}).get("doc", {})
        membership = doc.get("attributes", {}).get("action_group", {}).get("membership", [])
        groups[module] = {membership} if isinstance(membership, str) else set(membership)
    return groups


def main() -> int:
    root = Path(sys.argv[1])
    runtime = yaml.safe_load((root / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    declared: dict[str, set[str]] = {}
    for group, members in runtime.get("action_groups", {}).items():
        for member in members:
            if isinstance(member, str):  # the rest is metadata
                declared.setdefault(member, set()).add(f"{COLLECTION}.{group}")

    modules = sorted(path.stem for path in root.glob("plugins/modules/*.py") if path.stem != "__init__")
    if not modules:
        print("action groups: there are no modules yet")
        return 0
    groups = documented(modules)
    bad = [
        f"meta/runtime.yml: action group member {module} is no module of this collection"
        for module in sorted(set(declared) - set(modules))
    ]
    for module in modules:
        here, there = declared.get(module, set()), groups[module]
        if here != there:
            bad.append(
                f"plugins/modules/{module}.py: documented as a member of {sorted(there)}, "
                f"in meta/runtime.yml of {sorted(here)}"
            )
    print("\n".join(bad) if bad else f"action groups: {len(modules)} modules agree with their docs")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
