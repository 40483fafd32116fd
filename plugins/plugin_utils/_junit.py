"""A roll's report as JUnit XML: a suite for each host, a case for the host and for each of its VMs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

# What XML 1.0 has no place for.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GOOD = frozenset({"moved", "cold_moved", "stopped", "saved", "off", "restored", "skipped", "gone"})

_SKIPPED = {"waiting": "It was not begun", "given back": "It was given back before its work was done"}


def junit(doc: Mapping[str, Any]) -> str:
    """`doc`: report.json."""
    root = ET.Element("testsuites", name=_text(f"roll {doc['roll']['id']}"), time=str(doc["totals"]["seconds"] or 0))
    for host in doc["hosts"]:
        suite = ET.SubElement(root, "testsuite", name=_text(host["name"]))
        cases = [_host_case(suite, host)] + [_vm_case(suite, host, vm) for vm in host["vms"]]
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(cases.count("failure")))
        suite.set("skipped", str(cases.count("skipped")))
        suite.set("errors", "0")
        suite.set("time", str(host["seconds"] or 0))
    if doc["outcome"] == "refused":  # or it would be green
        suite = ET.SubElement(
            root, "testsuite", name="roll", tests="1", failures="1", skipped="0", errors="0", time="0"
        )
        case = ET.SubElement(suite, "testcase", classname="roll", name=_text(doc["roll"]["id"]), time="0")
        ET.SubElement(case, "failure", type="refused", message=_text(doc.get("why") or "It was refused"))
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _host_case(suite: ET.Element, host: Mapping[str, Any]) -> str:
    case = ET.SubElement(suite, "testcase", classname="host", name=_text(host["name"]), time=str(host["seconds"] or 0))
    if host["stage"] == "done" and not host["message"]:
        return ""
    if host["stage"] in _SKIPPED and not host["failed_in"]:
        ET.SubElement(case, "skipped", message=_text(host["message"] or _SKIPPED[host["stage"]]))
        return "skipped"
    where = f" ({host['failed_in']})" if host["failed_in"] else ""
    message = _sentence(host["message"] or "It was not brought to its end")
    ET.SubElement(case, "failure", type=_text(host["stage"] + where), message=_text(message)).text = _text(message)
    return "failure"


def _vm_case(suite: ET.Element, host: Mapping[str, Any], vm: Mapping[str, Any]) -> str:
    name = _text(vm["name"])
    case = ET.SubElement(
        suite, "testcase", classname=_text(f"vm.{host['name']}"), name=name, time=str(vm["duration"] or 0)
    )
    if vm["verdict"] in _GOOD:
        to = f" to {vm.get('at') or vm['target']}" if vm["verdict"] in ("moved", "cold_moved") else ""
        ET.SubElement(case, "system-out").text = _text(f"{vm['verdict'].replace('cold_moved', 'moved cold')}{to}")
        return ""
    reason = vm["reason"] or vm["verdict"]
    message = _sentence(str(vm["message"] or vm["verdict"]))
    failure = ET.SubElement(case, "failure", type=_text(reason), message=_text(message))
    failure.text = _text(f"{message} {_sentence(vm['remedy']) if vm['remedy'] else ''}".strip())
    return "failure"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _text(text: object) -> str:
    return _FORBIDDEN.sub("?", str(text))
