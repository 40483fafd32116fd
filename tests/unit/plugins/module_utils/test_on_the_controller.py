"""What the import of our plugins costs each ansible-playbook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.virtops.maintenance.plugins.module_utils import __file__ as ours

# As Ansible does it: by its own loader of collections.
IMPORTS_ALL = """
import importlib, pathlib, sys
import ansible.cli
from ansible.utils.collection_loader import _collection_finder
_collection_finder._AnsibleCollectionFinder(paths=[sys.argv[1]])._install()
plugins = "ansible_collections.virtops.maintenance.plugins"
for kind in ("action", "filter"):
    for path in pathlib.Path(sys.argv[2], kind).glob("*.py"):
        importlib.import_module(f"{plugins}.{kind}.{path.stem}")
print(*(name for name in ("kubernetes", "libvirt") if name in sys.modules))
utils = [name for name in sys.modules if name.startswith((f"{plugins}.module_utils.", f"{plugins}.plugin_utils."))]
compiled = [name for name in utils if type(sys.modules[name].__loader__).__name__ != "SourceFileLoader"]
print(len(utils) > 100, *compiled)
"""


def test_ansible_compiles_nothing_of_ours_twice_and_loads_no_platform_s_client() -> None:
    plugins = Path(ours).parents[1]
    paths = [str(plugins.parents[3]), str(plugins)]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_ALL, *paths], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["", "True"], done.stdout + done.stderr
