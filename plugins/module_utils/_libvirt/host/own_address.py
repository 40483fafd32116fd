"""Does a name or an address lead to this host itself?

What is served there is another thing, or nothing, as seen from any other host: a disk there
would be the data of whatever listens at that address on the target.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Optional

# Seconds for the resolver. It waits 5 s for the first of its name servers before it asks the second
# (resolv.conf's default), whose answer should still count.
PATIENCE = 8.0
# Names that mean the loopback address without any resolver (RFC 6761, and what distributions
# write into /etc/hosts).
# fmt: off
_LOOPBACK_NAMES = frozenset((
    "localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback",
    "localhost.localdomain", "localhost4.localdomain4", "localhost6.localdomain6",
))
# fmt: on

Resolver = Callable[[str], Optional[Sequence[str]]]


def literal(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that is written there, in any way that a resolver takes; None: it is a name."""
    text = name.strip().strip("[]").partition("%")[0]
    with suppress(ValueError):
        address = ipaddress.ip_address(text)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return mapped or address
    with suppress(OSError, UnicodeError):
        return ipaddress.IPv4Address(socket.inet_aton(text))  # 127.1, 0x7f000001, 2130706433
    return None


def is_loopback(name: str) -> bool:
    """Does it mean "this host" wherever it is said? Pure: nothing is resolved."""
    address = literal(name)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    plain = name.strip().rstrip(".").lower()
    return plain in _LOOPBACK_NAMES or plain.endswith(".localhost")


def resolve(name: str, patience: float = PATIENCE) -> Sequence[str] | None:
    """The name's addresses; none: there is no such name. None: no answer in time.

    The resolver cannot be interrupted, so it gets a thread that nobody waits for.
    """
    answer: queue.Queue[Sequence[str] | None] = queue.Queue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answer.put(sorted({str(row[4][0]) for row in found}))
        except socket.gaierror as exc:
            answer.put([] if exc.errno == socket.EAI_NONAME else None)
        except (OSError, UnicodeError):
            answer.put(None)

    threading.Thread(target=ask, name=f"resolve {name}", daemon=True).start()
    try:
        return answer.get(timeout=patience)
    except queue.Empty:
        return None


def is_assigned(address: str) -> bool:
    """Is the address one of this host's interfaces? The kernel's routes tell: what is sent to an
    address of one's own leaves from that address. Nothing is sent."""
    found = literal(address)
    if found is None:
        return False
    family = socket.AF_INET if found.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(found), 9))
            return literal(str(probe.getsockname()[0])) == found
    except OSError:
        return False  # no route: then it is not here


class OwnAddress:
    """Asks once for each name. `resolver`, `assigned`, `names`: for tests."""

    def __init__(
        self, resolver: Resolver = resolve, assigned: Callable[[str], bool] = is_assigned, names: Sequence[str] = ()
    ) -> None:
        self._resolver, self._assigned = resolver, assigned
        own = names or (socket.gethostname(),)
        self._names = {part for name in own for part in (name.lower(), name.lower().split(".")[0])}
        self._known: dict[str, bool | None] = {}

    def __call__(self, name: str) -> bool | None:
        """Is it this host? None: the name cannot be resolved here, so it is not known."""
        if name not in self._known:
            self._known[name] = self._ask(name)
        return self._known[name]

    def _ask(self, name: str) -> bool | None:
        if is_loopback(name) or name.rstrip(".").lower() in self._names:
            return True
        if literal(name) is not None:
            return self._assigned(name)
        addresses = self._resolver(name)
        if not addresses:
            return None
        return any(is_loopback(address) or self._assigned(address) for address in addresses)
