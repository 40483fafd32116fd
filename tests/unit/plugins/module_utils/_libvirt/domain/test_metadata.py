"""Marks of an evacuation in a domain's metadata: what is declared is never lost."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain import metadata as md

PLAIN = "<vm><evictionStrategy>None</evictionStrategy><label name='app'>web</label></vm>"
WITH_NAMESPACE = (
    f'<virtops:vm xmlns:virtops="{md.NAMESPACE}"><virtops:evictionStrategy>None</virtops:evictionStrategy></virtops:vm>'
)
FACTS = {"run": "r1", "by": "ops", "reason": "patch", "at": "now"}


def test_marks_come_and_go_and_leave_the_rest() -> None:
    for text in (PLAIN, WITH_NAMESPACE):
        marked = md.with_marks(text, "host-a", FACTS)
        assert md.is_marked(marked)
        assert 'run="r1"' in marked
        assert "<evacuationNodeName>host-a</evacuationNodeName>" in marked
        cleared = md.without_marks(marked)
        assert not md.is_marked(cleared)
        assert "<evictionStrategy>None</evictionStrategy>" in cleared


def test_marking_twice_is_marking_once() -> None:
    once = md.with_marks(PLAIN, "host-a", FACTS)
    assert md.with_marks(once, "host-a", FACTS) == once


def test_a_vm_without_metadata_can_be_marked() -> None:
    assert md.is_marked(md.with_marks(None, "host-a", FACTS))
    assert not md.is_marked(None)
    assert not md.is_marked(PLAIN)


def test_the_last_migration_is_kept_once() -> None:
    text = md.without_marks(PLAIN, {"source": "host-a", "target": "host-b"})
    text = md.without_marks(text, {"source": "host-b", "target": "host-c"})
    assert text.count("lastMigration") == 1
    assert 'target="host-c"' in text


def test_the_group_is_read_as_xml() -> None:
    """As the definition's reader has it, or a group would not find its own VMs elsewhere."""
    group = "<antiAffinityGroup>\n a&amp;b </antiAffinityGroup>"
    assert md.group_of(f"<vm>{group}</vm>") == "a&b"
    assert md.group_of("<vm/>") is None
    assert md.group_of(None) is None
