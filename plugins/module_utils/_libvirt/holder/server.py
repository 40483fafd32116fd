"""The holder's socket: JSON lines in, JSON lines out, many clients, one thread.

An order has `order`, and may have `id`, which its answer repeats. Answers have `ok`, and
`error` when it is false. Events have `event`, and come only to those who subscribed.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from .order import OrderError

LONGEST_LINE = 1 << 20
LONGEST_BACKLOG = 4 << 20  # bytes that a client may leave unread until it is dropped


class Orders(Protocol):
    """The orders that the server passes on, and the state that it reports."""

    @property
    def idle(self) -> bool: ...

    def order(self, raw: Mapping[str, Any]) -> dict[str, Any]: ...

    def save(self, raw: Mapping[str, Any]) -> dict[str, Any]: ...

    def unsave(self, raw: Mapping[str, Any]) -> dict[str, Any]: ...

    def shutdown(self, raw: Mapping[str, Any]) -> dict[str, Any]: ...

    def abort(self, raw: Mapping[str, Any]) -> dict[str, Any]: ...

    def status(self) -> list[dict[str, Any]]: ...

    def saves(self) -> dict[str, str]: ...

    def queued(self) -> list[str]: ...

    def stops(self) -> dict[str, dict[str, Any]]: ...


class _Client:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.incoming = b""
        self.outgoing = b""
        self.subscribed = False
        self.tick = 0.0
        self.next_tick = 0.0


class Server:
    """`linger`: seconds without work and without clients after which `serve` returns."""

    def __init__(self, listener: socket.socket, linger: float) -> None:
        self._listener = listener
        self._linger = linger
        self._selector = selectors.DefaultSelector()
        self._clients: set[_Client] = set()
        self._events: deque[dict[str, Any]] = deque()
        self._wake_in, self._wake_out = os.pipe()
        for fd in (self._wake_in, self._wake_out):
            os.set_blocking(fd, False)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)

    def publish(self, event: dict[str, Any]) -> None:
        """Send to all subscribers; may be called from any thread."""
        self._events.append(event)
        try:
            os.write(self._wake_out, b"x")
        except BlockingIOError:
            return  # full: it wakes up anyway

    def serve(self, orders: Orders) -> None:
        """Serve until there was nothing to do for `linger` seconds."""
        quiet_since = time.monotonic()
        while True:
            for key, mask in self._selector.select(self._pause()):
                self._handle(key.fileobj, key.data, mask, orders)
            while self._events:
                self._send_to_subscribers(self._events.popleft())
            self._ticks(orders)
            now = time.monotonic()
            if self._clients or not orders.idle:
                quiet_since = now
            elif now - quiet_since >= self._linger:
                return

    def _pause(self) -> float:
        now = time.monotonic()
        due = [client.next_tick - now for client in self._clients if client.tick]
        return max(0.0, min([0.5, *due]))

    def _handle(self, source: Any, client: _Client | None, mask: int, orders: Orders) -> None:
        if source is self._listener:
            self._accept()
        elif client is None:
            os.read(self._wake_in, 4096)
        else:
            try:
                if mask & selectors.EVENT_READ:
                    self._read(client, orders)
                if mask & selectors.EVENT_WRITE and client in self._clients:
                    self._flush(client)
            except OSError:
                self._drop(client)

    def _accept(self) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return  # it has gone again
        sock.setblocking(False)
        client = _Client(sock)
        self._clients.add(client)
        self._selector.register(sock, selectors.EVENT_READ, client)

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.discard(client)
            self._selector.unregister(client.sock)
            client.sock.close()

    def _read(self, client: _Client, orders: Orders) -> None:
        data = client.sock.recv(65536)
        if not data:
            self._drop(client)
            return
        client.incoming += data
        while b"\n" in client.incoming:
            line, _newline, client.incoming = client.incoming.partition(b"\n")
            self._send(client, self._answer(client, line, orders))
        if len(client.incoming) > LONGEST_LINE:
            self._drop(client)

    def _answer(self, client: _Client, line: bytes, orders: Orders) -> dict[str, Any]:
        number: Any = None
        try:
            raw = json.loads(line)
            if not isinstance(raw, dict):
                raise OrderError("an order is a JSON object")
            number = raw.get("id")
            return {"id": number, "ok": True, **self._obey(client, raw, orders)}
        except ValueError as exc:  # OrderError, and JSON that is none
            return {"id": number, "ok": False, "error": str(exc)}

    @staticmethod
    def _obey(client: _Client, raw: Mapping[str, Any], orders: Orders) -> dict[str, Any]:
        order = raw.get("order")
        if order in ("migrate", "watch"):
            return orders.order(raw)
        if order == "save":
            return orders.save(raw)
        if order == "unsave":
            return orders.unsave(raw)
        if order == "shutdown":
            return orders.shutdown(raw)
        if order == "abort":
            return orders.abort(raw)
        if order == "status":
            reported: dict[str, Any] = {"saves": orders.saves(), "queued": orders.queued()}
            reported["stops"] = orders.stops()
            return {"pid": os.getpid(), "jobs": orders.status(), **reported}
        if order == "subscribe":
            client.subscribed = True
            client.tick = max(0.0, float(raw.get("tick") or 0.0))
            client.next_tick = time.monotonic()
            return {"pid": os.getpid(), "jobs": orders.status()}
        raise OrderError(f"unknown order {order!r}")

    def _ticks(self, orders: Orders) -> None:
        now = time.monotonic()
        for client in [c for c in self._clients if c.tick and c.next_tick <= now]:
            client.next_tick = now + client.tick
            self._send(client, {"event": "tick", "jobs": orders.status()})

    def _send_to_subscribers(self, event: dict[str, Any]) -> None:
        for client in [c for c in self._clients if c.subscribed]:
            self._send(client, event)

    def _send(self, client: _Client, message: dict[str, Any]) -> None:
        client.outgoing += json.dumps(message).encode() + b"\n"
        if len(client.outgoing) > LONGEST_BACKLOG:
            self._drop(client)
            return
        try:
            self._flush(client)
        except OSError:
            self._drop(client)

    def _flush(self, client: _Client) -> None:
        try:
            while client.outgoing:
                client.outgoing = client.outgoing[client.sock.send(client.outgoing) :]
        except BlockingIOError:
            pass
        more = selectors.EVENT_WRITE if client.outgoing else 0
        self._selector.modify(client.sock, selectors.EVENT_READ | more, client)
