"""JSON and XML that another host may have written, and what a definition is known by. Pure.

Whatever is wrong with a text is one kind of error: nobody who reads has to know how a parser fails.
"""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from typing import Any

# What may stand before the root element, and then a DOCTYPE: only there can entities be made.
_DOCTYPE = re.compile(r"\ufeff?\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*)*<!DOCTYPE", re.DOTALL)


def load_json(text: str | bytes) -> Any:
    """Raises ValueError, also for what is nested so deeply that the parser gives up."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_xml(text: str) -> ET.Element:
    """Raises ET.ParseError, for a DOCTYPE too.

    libvirt writes none. Some hundred bytes of entities in one can stand for gigabytes, and not
    every expat that Python is built with has a limit.
    """
    if _DOCTYPE.match(text):
        raise ET.ParseError("it has a DOCTYPE, which libvirt never writes")
    return ET.fromstring(text)


def digest_of(definition: str) -> str:
    """The SHA-256 of a definition, by which it is recognized when it comes back from another host."""
    return hashlib.sha256(definition.encode()).hexdigest()
