"""Copy the collection's files to DEST/ansible_collections/virtops/maintenance.

Those are the files that git tracks or would track. Tools that want the collection under that
name, in a repository of its own and without this clone's build/, run on the copy. Times are kept
and only what changed is copied, so that their caches stay warm.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files_of_the_collection() -> set[Path]:
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout.decode()
    paths = {Path(name) for name in out.split("\0") if name}
    # A file deleted but still in the index is listed too; a link to nothing is a finding.
    return {path for path in paths if (ROOT / path).is_file() or (ROOT / path).is_symlink()}


def same(source: Path, copy: Path) -> bool:
    if not copy.is_file() or copy.is_symlink() or source.is_symlink():
        return False
    a, b = source.stat(), copy.stat()
    return (a.st_size, a.st_mtime_ns, a.st_mode) == (b.st_size, b.st_mtime_ns, b.st_mode)


def main() -> None:
    tree = Path(sys.argv[1]).resolve() / "ansible_collections" / "virtops" / "maintenance"
    tree.mkdir(parents=True, exist_ok=True)
    wanted = files_of_the_collection()

    for path in sorted(tree.rglob("*"), reverse=True):
        relative = path.relative_to(tree)
        if relative.parts[0] == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif relative not in wanted:
            path.unlink()

    for relative in sorted(wanted):
        source, copy = ROOT / relative, tree / relative
        if not same(source, copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            try:
                shutil.copy2(source, copy, follow_symlinks=False)
            except FileNotFoundError:  # deleted while we looked
                continue

    if not (tree / ".git").exists():
        subprocess.run(["git", "init", "--quiet", str(tree)], check=True)
    print(tree)


if __name__ == "__main__":
    main()
