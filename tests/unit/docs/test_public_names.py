"""What is public has its line in the changelog, and what is internal is called so everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
import readme
import yaml
from tools import public_names

STABILITY = (readme.ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def without_a_line(before: str, now: str, fragments: Iterable[str]) -> list[str]:
    """Names that are in one of the two texts alone, with the group of each, and not in ``code`` of a fragment."""
    code = " ".join(span for text in fragments for span in re.findall("``(.+?)``", text))
    said = set(re.findall(r"[\w/-]+", code))
    return sorted(one for one in names(before) ^ names(now) if re.split(r"[ .]", one)[-1] not in said)


def names(text: str) -> set[str]:
    lines = [line.partition(": ") for line in text.splitlines()]
    return {f"{what}: {name}" for what, _colon, all_ in lines for name in all_.split()}


def test_a_public_name_that_came_or_went_has_a_line_in_the_changelog() -> None:
    fragments = [path.read_text(encoding="utf-8") for path in (readme.ROOT / "changelogs" / "fragments").glob("*.yml")]
    before = public_names.FILE.read_text(encoding="utf-8")
    lacking = without_a_line(before, public_names.text(), fragments)
    assert not lacking, "name each in ``code`` of a fragment; until 0.1.0 is out: make public-names"


@pytest.mark.parametrize(
    ("now", "said", "lacking"),
    [
        ("options of m: a b\n", "", []),
        ("options of m: a b c\n", "m - c", ["options of m: c"]),
        ("options of m: a b c.d\n", "m - has ``c.d``", []),
        ("options of m: a\n", "", ["options of m: b"]),
        ("options of m: a\n", "m - ``b`` is gone", []),
        ("options of m: a b\nreasons: a\n", "", ["reasons: a"]),
    ],
)
def test_what_has_no_line_is_found(now: str, said: str, lacking: list[str]) -> None:
    assert without_a_line("options of m: a b\n", now, [said]) == lacking


def test_what_is_internal_is_called_so_in_its_documentation_and_on_the_page() -> None:
    docs = {
        name: public_names.documented(kind, name)
        for kind in ("modules", "filter", "lookup")
        for name in public_names.plugins(kind)
    }
    internal = {name for name, about in docs.items() if public_names.is_internal(about)}
    # antsibull-changelog tells of what has a version.
    assert internal == {name for name, about in docs.items() if "version_added" not in about}
    said = STABILITY.partition("\nNot public: ")[2].partition(" everything below")[0]
    assert set(re.findall(r"`(\w+)`", said)) == internal
    fragments = (readme.ROOT / "changelogs" / "fragments").glob("*.yml")
    told = {word for path in fragments for word in re.findall(r"\w+_\w+", str(yaml.safe_load(path.read_text("utf-8"))))}
    assert not told & internal


def test_facts_that_the_page_names_are_public() -> None:
    row = next(line for line in STABILITY.splitlines() if "facts that" in line)
    named = set(re.findall(r"`(maintenance_\w+)`", row))
    assert named and named <= set(public_names.facts())
