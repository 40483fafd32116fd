"""Our element in a domain's metadata: what the VM declares, and the marks of an evacuation.

    <virtops:vm xmlns:virtops="https://virtops.example/xmlns/maintenance/1">
      <virtops:evictionStrategy>LiveMigrate</virtops:evictionStrategy>
      <virtops:nodeSelector>zone=a, disk=ssd</virtops:nodeSelector>
      <virtops:affinity>rack In r1|r2</virtops:affinity>
      <virtops:tolerations>dedicated=db:NoSchedule</virtops:tolerations>
      <virtops:near>web</virtops:near>
      <virtops:evictionRequested run="..." by="..." reason="..." at="..."/>
      <virtops:evacuationNodeName>host-a</virtops:evacuationNodeName>
      <virtops:lastMigration source="host-a" target="host-b" run="..." at="..."/>
    </virtops:vm>

Never written while a job runs: it waits 30 s for the state change lock and fails
(seen with libvirt 9.0).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from ..._core.model import constraints_text
from ..._core.model.constraints import Constraints
from .spec import Declared
from .untrusted import parse_xml

NAMESPACE = "https://virtops.example/xmlns/maintenance/1"
PREFIX = "virtops"
_MARKS = ("evictionRequested", "evacuationNodeName")
_NEEDS = {"nodeSelector": "selector", "affinity": "affinity", "tolerations": "tolerations", "near": "near"}


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _root(xml: str | None) -> ET.Element:
    root = parse_xml(xml) if xml else ET.Element(_tag("vm"))
    # libvirt hands the element out without the prefix's namespace on its children's names
    for element in root.iter():
        if "}" not in element.tag:
            element.tag = _tag(element.tag)
    return root


def _text(root: ET.Element) -> str:
    """The element as libvirt wants it: plain names; libvirt adds prefix and namespace."""
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
    return ET.tostring(root, encoding="unicode")


def _without(root: ET.Element, *names: str) -> None:
    for name in names:
        for element in root.findall(_tag(name)):
            root.remove(element)


def is_marked(xml: str | None) -> bool:
    """Does it carry EvictionRequested or evacuationNodeName?"""
    return bool(xml) and any(_root(xml).find(_tag(name)) is not None for name in _MARKS)


def needs_of(declared: Mapping[str, str]) -> Constraints:
    """Where it wants to be, from the children of our element. Raises PolicyError."""
    found = {key: declared[name] for name, key in _NEEDS.items() if declared.get(name)}
    return constraints_text.parse_constraints("its metadata", found)


def group_of(xml: str | None) -> str | None:
    """The anti-affinity group that it declares; None: none."""
    return (_root(xml).findtext(_tag("antiAffinityGroup")) or "").strip() or None


def strategy_of(xml: str | None) -> str:
    """The eviction strategy that it declares; empty: none."""
    return (_root(xml).findtext(_tag("evictionStrategy")) or "").strip()


def with_strategy(xml: str | None, strategy: str) -> str:
    """Declare `strategy`; empty: declare none. Whatever else stands there is kept."""
    root = _root(xml)
    _without(root, "evictionStrategy")
    if strategy:
        element = ET.Element(_tag("evictionStrategy"))
        element.text = strategy
        root.insert(0, element)
    return _text(root)


def with_marks(xml: str | None, node: str, facts: Mapping[str, str]) -> str:
    """Add EvictionRequested (with run, by, reason, at) and evacuationNodeName = `node`."""
    root = _root(xml)
    _without(root, *_MARKS)
    ET.SubElement(root, _tag("evictionRequested"), dict(facts))
    ET.SubElement(root, _tag("evacuationNodeName")).text = node
    return _text(root)


def without_marks(xml: str | None, last: Mapping[str, str] | None = None) -> str:
    """Take the marks away; `last`: the migration that came to an end."""
    root = _root(xml)
    _without(root, *_MARKS)
    if last:
        _without(root, "lastMigration")
        ET.SubElement(root, _tag("lastMigration"), dict(last))
    return _text(root)


def declared_of(root: ET.Element) -> Declared:
    """Parse our element in a domain's metadata; an empty Declared where there is none. `root`: of the domain's XML."""
    element = root.find(f"metadata/{{{NAMESPACE}}}vm")
    if element is None:
        return Declared()
    named: dict[str, dict[str, str]] = {"label": {}, "annotation": {}}
    texts: dict[str, str] = {}
    for child in element:
        # An element set through virDomainSetMetadata has its children without the prefix.
        tag = child.tag.rsplit("}", 1)[-1] if isinstance(child.tag, str) else ""
        text = (child.text or "").strip()
        if tag in _MARKS:
            continue  # of an evacuation, not the VM's own
        if tag in named:
            named[tag][child.get("name", "")] = text
        elif tag:
            texts[tag] = text
    return Declared(
        eviction_strategy=texts.pop("evictionStrategy", ""),
        labels=named["label"],
        annotations=named["annotation"],
        owner=texts.pop("owner", ""),
        anti_affinity_group=texts.pop("antiAffinityGroup", ""),
        other=texts,
    )
