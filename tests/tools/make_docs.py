"""make docs: the site in build/docs/html, from the guides in docs/ and the documentation of plugins and roles.

The guides are taken as they are. Only operating.md, which is one long page on the forge, is cut into pages, and links
into it follow. Sphinx fails on a reference that leads nowhere; after it every local link of every page is followed,
with its anchor. Nothing is fetched.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

ROOT = Path(__file__).resolve().parents[2]
DOCS, OUT = ROOT / "docs", ROOT / "build" / "docs"
SOURCE, HTML = OUT / "source", OUT / "html"
FORGE = "https://github.com/virtops/maintenance/blob/main"
WHOLE = "operating.md"
# Page -> title, and the sections of operating.md that are on it. Every section is on one.
PAGES = {
    "hosts.md": ("Hosts, nodes and VMs", ("What a host needs", "KubeVirt nodes", "What a VM can declare", "Limits")),
    "check.md": ("Check before you drain", ("Check before you drain", "Check mode")),
    "plan.md": ("Plan", ("The plan", "What is not known in advance")),
    "roll.md": ("Roll", ("What a roll does beside the drain", "What a roll prints", "Notifications")),
    "abort-and-status.md": ("Status and abort", ("How far is it, and how to end it",)),
    "recover.md": ("Recover", ("What to do when a roll was interrupted", "At 3 a.m.")),
    "variables.md": ("Variables", ("Variables",)),
}
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def anchor(heading: str) -> str:
    """As forges and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sections(text: str) -> dict[str, str]:
    """Title -> text, of the sections of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


class Guides:
    """The Markdown pages, as the site has them."""

    def __init__(self) -> None:
        found = sections((DOCS / WHOLE).read_text(encoding="utf-8"))
        placed = [title for _page, titles in PAGES.values() for title in titles]
        if sorted(placed) != sorted(found):
            wrong = sorted(set(placed) ^ set(found))
            raise SystemExit(f"docs: sections of {WHOLE} and PAGES of {Path(__file__).name} differ: {wrong}")
        self._page_of: dict[str, str] = {}
        self._pages: dict[str, tuple[str, Path]] = {}
        for page, (title, titles) in PAGES.items():
            text = "".join(f"## {one}\n{found[one]}" for one in titles)
            if title in titles:  # its heading is the page's
                text = f"## {title}\n{found[title]}".replace("## ", "# ").replace(f"# {title}\n", "", 1)
                text += "".join(f"## {one}\n{found[one]}" for one in titles if one != title)
            for heading in [*re.findall(r"^#+ (.+)$", text, re.MULTILINE), title]:
                self._page_of[anchor(heading)] = page
            self._pages[page] = (f"# {title}\n\n{text.strip()}\n", DOCS)
        self._pages["awx.md"] = ((DOCS / "awx" / "README.md").read_text(encoding="utf-8"), DOCS / "awx")
        for path in sorted(DOCS.glob("*.md")):
            if path.name != WHOLE:
                self._pages[path.name] = (path.read_text(encoding="utf-8"), DOCS)

    def write(self) -> None:
        for name, (whole, folder) in self._pages.items():
            # A forge draws it; here a script from elsewhere would have to.
            text = whole.replace("```mermaid\n", "```text\n")
            seen = re.compile(r"^(```+).*?^\1", re.MULTILINE | re.DOTALL)
            rest, done = 0, ""
            for block in [*seen.finditer(text), None]:
                end = block.start() if block else len(text)
                done += _LINK.sub(lambda found, name=name, at=folder: self._link(found[0], name, at), text[rest:end])
                done, rest = done + (block[0] if block else ""), block.end() if block else end
            (SOURCE / name).write_text(done, encoding="utf-8")

    def _link(self, target: str, page: str, folder: Path) -> str:
        """Where a link leads on the site."""
        if re.match(r"\w+:", target):
            return target
        path, _sharp, fragment = target.partition("#")
        if not path:
            there = self._page_of.get(fragment, page) if page in PAGES else page
            return f"#{fragment}" if there == page else f"{there}#{fragment}"
        file = (folder / path).resolve()
        if not file.exists():
            raise SystemExit(f"docs: {page}: {target} leads to no file")
        name = str(file.relative_to(ROOT))
        if name == f"docs/{WHOLE}":
            there = self._page_of[fragment] if fragment else "roll.md"
            title = PAGES[there][0]
            return there if not fragment or fragment == anchor(title) else f"{there}#{fragment}"
        if name == "docs/awx/README.md":
            return "awx.md" + (f"#{fragment}" if fragment else "")
        if file.suffix == ".md" and file.parent == DOCS:
            return file.name + (f"#{fragment}" if fragment else "")
        return f"{FORGE}/{name}"


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.update(found[key] or "" for key in ("id", "name") if key in found)
        link = found.get("href") or found.get("src")
        if link and not re.match(r"\w+:|//", link):
            self.links.append(link)


def check_links() -> int:
    """The last line. How many links are broken."""
    pages = {path: Page(path) for path in sorted(HTML.rglob("*.html"))}
    links = broken = 0
    for path, page in pages.items():
        for link in page.links:
            links += 1
            file, fragment = urldefrag(link)
            there = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            there = there / "index.html" if there.is_dir() else there
            good = there.is_file() and (not fragment or there not in pages or unquote(fragment) in pages[there].anchors)
            if not good:
                broken += 1
                print(f"docs: {path.relative_to(HTML)}: {link} leads nowhere")
    print(f"docs: the site is {HTML / 'index.html'}")
    print(f"docs: pages={len(pages)} links={links} broken={broken} {'ok' if not broken else 'FAILED'}")
    return broken


def write_reference() -> None:
    """Pages of plugins and roles. The theme has a table of contents of its own beside each page."""
    tool = str(Path(sys.executable).parent / "antsibull-docs")
    folder = SOURCE / "collection"
    folder.mkdir()
    options = ("--use-current", "--squash-hierarchy", "--fail-on-error", "--dest-dir", str(folder))
    subprocess.run([tool, "collection", *options, "virtops.maintenance"], check=True)
    for page in folder.glob("*.rst"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"^\.\. contents::\n( +:.*\n)*", "", text, flags=re.MULTILINE), encoding="utf-8")


def main() -> int:
    shutil.rmtree(OUT, ignore_errors=True)
    (SOURCE / "_static").mkdir(parents=True)
    Guides().write()
    for name in ("site/conf.py", "site/index.md", "roll.svg"):
        shutil.copyfile(DOCS / name, SOURCE / Path(name).name)
    shutil.copyfile(DOCS / "site" / "site.css", SOURCE / "_static" / "site.css")
    write_reference()
    build = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html", str(SOURCE), str(HTML)]
    if subprocess.run(build, check=False).returncode:
        return 1
    return 1 if check_links() else 0


if __name__ == "__main__":
    sys.exit(main())
