"""Code that modules and the controller's plugins share.

On the controller Ansible's loader of collections compiles each file again in each ansible-playbook. Python's own keeps
the bytecode where it may write it, beside the file or below PYTHONPYCACHEPREFIX, and compiles as well where it may not.
"""

from __future__ import annotations

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader

_PLUGINS = __name__.rpartition(".")[0]
_OURS = (f"{_PLUGINS}.module_utils.", f"{_PLUGINS}.plugin_utils.")


class _Files:
    """Finds what is ours, by Python's finder of files; all else, and what is not there, is left to the others."""

    def __init__(self) -> None:
        self._folders: dict[str, FileFinder] = {}

    def find_spec(self, name: str, path: list[str] | None = None, _target: object = None) -> ModuleSpec | None:
        if not name.startswith(_OURS) or not path:
            return None
        folder = str(next(iter(path)))
        if folder not in self._folders:
            self._folders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
        spec = self._folders[folder].find_spec(name)
        return spec if spec is not None and spec.loader is not None else None


# In Ansible's own programs, and not where its loader alone is used, as ansible-test does.
if "ansible.cli" in sys.modules and "collection_loader" in type(__spec__.loader).__module__:
    sys.meta_path.insert(0, _Files())  # type: ignore[arg-type]
