"""One VM's migration: read, decide, act, until it is final or the slice is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from ..._core.model.record import Superseded
from ..._core.reasons.reason import Finding, Reason
from ..._playbook import lives
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..objects import facts
from ..requests import migration_api
from ..requests.eviction import failure
from .decide import Do, Phase, Step, next_step
from .model import MigrationRequest, RequestNote, View, WantedState, check_request, read_note, write_note
from .read import Reader, target_refuses
from .result import predicted_fields, result

Obj = dict[str, Any]
# Seconds: between the two reads after which an end is believed, and the longest sleep.
_SECOND_READ_DELAY = 0.5
_WAIT = 2.0
_ASKED = frozenset({Do.CANCEL, Do.END_TARGET})
_PASSES = frozenset({0, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Clocks:
    """`wall`: seconds since the epoch; `mono`: monotonic."""

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def run_migration(request: MigrationRequest, clocks: Clocks | None = None) -> dict[str, Any]:
    """Work for about `request.seconds`, then say how far it is.

    Raises PolicyError for a wrong option, KubeError (AccessDenied), VMNotHere,
    MigrationRefused, Superseded, ConfigError,
    KubernetesMissing.
    """
    check_request(request)
    migrator = Migrator(request, clocks or Clocks())
    try:
        return migrator.run()
    finally:
        migrator.close()


def plan_migration(request: MigrationRequest, clocks: Clocks | None = None) -> dict[str, Any]:
    """The module's result in check mode: what would be done now. Reads, and asks the server by a dry run. Raises what
    run_migration raises."""
    check_request(request)
    migrator = Migrator(request, clocks or Clocks())
    try:
        return migrator.plan()
    finally:
        migrator.close()


class Migrator:
    """One slice. `close` ends its watches."""

    def __init__(self, request: MigrationRequest, clocks: Clocks) -> None:
        self._client = Client(request.auth, clocks.sleep)
        self._client.before_write = lambda: lives.check(request.playbook)
        self._request = request
        self._clocks = clocks
        self._reader = Reader(self._client, request, clocks.mono, clocks.wall)
        self._changed = False
        self._signed = request.begun
        self._uid = ""  # of the instance that was signed, where this slice has seen it

    def close(self) -> None:
        self._reader.close()
        self._client.close()

    # The loop

    def run(self) -> dict[str, Any]:
        until = self._clocks.mono() + self._request.seconds
        self._reader.start()
        view = self._reader.read()
        first, last = view.node, Do.WAIT
        while True:
            step = self._next(view)
            if step.do is Do.DONE:
                self._clocks.sleep(_SECOND_READ_DELAY)
                view = self._reader.read(fresh=True)
                again = self._next(view)
                if (again.do, again.phase) == (Do.DONE, step.phase):
                    return self._result(view, again, first)
                continue
            refusal = self._act(step, view)
            if refusal is not None:
                return self._result(self._reader.read(fresh=True), refusal, first)
            if self._clocks.mono() >= until:
                view = self._reader.read()
                step = self._next(view)  # told as it is now; an end is still read twice
                if step.do is not Do.DONE:
                    return self._result(view, step, first)
                continue
            # What was asked for and is not so yet is not asked for again without a pause.
            repeated, last = step.do is last and step.do in _ASKED, step.do
            if step.do is Do.WAIT or repeated:
                self._reader.wait(min(_WAIT, max(0.05, until - self._clocks.mono())))
            view = self._reader.read()

    def _next(self, view: View) -> Step:
        asked = self._asked(view)
        lost = self._signed and asked is None
        if lost and view.vmi is not None and not facts.final(view.vmi):
            return self._lost(view, view.vmi)
        step = next_step(view, asked, self._request)
        new = step.do is Do.SIGN and asked is None and self._request.want is WantedState.MIGRATED
        if new and view.vmi is not None:
            refused = target_refuses(self._client, self._request, view.vmi)
            if refused is not None:
                return Step(Do.DONE, Phase.BLOCKED, refused)
        return step

    def _lost(self, view: View, vmi: Obj) -> Step:
        """It runs, and nothing of our note is on it. Raises Superseded where it is the same one.

        What this slice has not seen signed, migrations of ours tell apart by when they were made.
        """
        born = str(vmi["metadata"].get("creationTimestamp", ""))
        mine = [m for m in view.migrations if facts.request(m).get("run") == self._request.run_id]
        made = max((str(m["metadata"].get("creationTimestamp", "")) for m in mine), default="")
        if self._uid == vmi["metadata"]["uid"] or (not self._uid and made and made >= born):
            raise Superseded(
                f"Someone has removed the request of this run ({self._request.run_id}) from VM "
                f"{self._request.vm}, which runs on {view.node or 'no node'}. This run has "
                "stopped; nothing was undone."
            )
        text = f"It was stopped and restarted on {view.node or 'a node'}"
        text += "." if self._uid or made else ", or someone has removed this run's request from it."
        return Step(Do.DONE, Phase.BLOCKED, Finding(Reason.StoppedByItself, text))

    def plan(self) -> dict[str, Any]:
        """The notes are not written: each step is followed by the one that it would lead to."""
        self._reader.start()
        view = self._reader.read()
        step = self._next(view)
        if step.do is Do.SIGN and step.asked is not None:
            step = next_step(view, step.asked, self._request)
        refusal = None
        if step.do is Do.CREATE:
            refusal = self._tried(lambda: self._create(view, step, True))
        elif step.do is Do.CANCEL:
            refusal = self._tried(lambda: self._cancel(view, True))
        found = self._result(view, refusal or step, view.node)
        return {**found, **predicted_fields(self._request, view, refusal or step)}

    def _result(self, view: View, step: Step, first: str) -> dict[str, Any]:
        asked = read_note(view.vmi, self._request.run_id) if view.vmi is not None else None
        moved = asked is not None and bool(view.node) and view.node != asked.source
        found = result(self._request, view, asked, step, first)
        return {**found, "changed": self._changed or moved}

    def _asked(self, view: View) -> RequestNote | None:
        """Raises Superseded: a run that another one has taken over must stop."""
        vmi = view.vmi
        if vmi is None or not self._signed:
            return None  # a note under this id is of an earlier task
        asked = read_note(vmi, self._request.run_id)
        if asked is not None:
            self._uid = asked.uid
            return asked if asked.want == self._request.want.value else None
        other = facts.request(vmi)
        if other.get("run") not in (None, self._request.run_id):
            raise Superseded(
                f"Run {other['run']} ({other.get('by') or 'unknown'}: "
                f"{other.get('reason') or 'no reason given'}) took VM {self._request.vm} over at "
                f"{other.get('at', '?')}. This run ({self._request.run_id}) has stopped; nothing "
                "was undone."
            )
        return None

    # Acting

    def _act(self, step: Step, view: View) -> Step | None:
        """A step that ends it, where the server refuses for good."""
        if step.do is Do.WAIT:
            return None
        try:
            self._do(step, view)
        except AccessDenied:
            raise
        except KubeError as exc:
            if exc.code == 0 and step.do is not Do.CREATE:
                raise  # nobody has refused it
            if exc.code != 409 and exc.code not in _PASSES:
                return self._refused(exc)
            if exc.code != 409 and step.do is not Do.CREATE:
                return self._refused(exc)  # the client has tried it again already
            if exc.code != 409:
                self._reader.refused = (failure(exc), self._clocks.mono())
            self._reader.refresh()  # 409: it was changed meanwhile; decided anew
        return None

    def _do(self, step: Step, view: View) -> None:
        if step.asked is not None and view.vmi is not None:
            self._sign(view.vmi, step.asked)
        if step.do is Do.CREATE:
            self._bind(step, self._create(view, step, False))
        elif step.do is Do.CANCEL:
            self._cancel(view, False)
        elif step.do is Do.DELETE and step.migration is not None:
            migration_api.delete_migration(self._client, step.migration)
            self._reader.refresh()
        elif step.do is Do.END_TARGET and step.migration is not None and view.vmi is not None:
            migration_api.end_target(self._client, view.vmi, step.migration)
        self._changed = self._changed or step.do is not Do.SIGN

    def _sign(self, vmi: Obj, asked: RequestNote) -> None:
        note = self._note(asked)
        version = vmi["metadata"]["resourceVersion"]
        self._reader.put(migration_api.sign(self._client, vmi, note, version))
        self._signed, self._uid = True, asked.uid

    def _note(self, asked: RequestNote) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(self._clocks.wall(), timezone.utc)
        return write_note(self._request, asked, stamp.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def _bind(self, step: Step, made: Obj | None) -> None:
        """The note names it, so that one that somebody deletes is told from one never made."""
        vmi = self._reader.read().vmi
        if made is not None and step.asked is not None and vmi is not None:
            self._sign(vmi, replace(step.asked, work=made["metadata"]["uid"]))

    def _create(self, view: View, step: Step, dry: bool) -> Obj | None:
        """None: somebody was quicker; theirs is adopted at the next look."""
        if step.asked is None or view.vmi is None:
            return None
        made = None
        note = self._note(step.asked)
        try:
            made = migration_api.create(self._client, view.vmi, note, self._reader.selector(), dry)
        except AccessDenied:
            raise
        except KubeError as exc:
            if not migration_api.in_flight(exc):
                raise
        if not dry:
            self._reader.refused = None
            self._reader.refresh()
        return made

    def _cancel(self, view: View, dry: bool) -> None:
        """Raises KubeError, unless the mark has gone or changed by itself meanwhile."""
        if view.vmi is None:
            return
        try:
            migration_api.cancel_mark(self._client, view.vmi, dry)
        except AccessDenied:
            raise
        except KubeError:
            now = self._reader.read(fresh=True).vmi
            if now is not None and facts.mark(now) == facts.mark(view.vmi):
                raise
        else:
            self._reader.refresh()

    def _tried(self, what: Callable[[], object]) -> Step | None:
        try:
            what()
        except AccessDenied:
            raise
        except KubeError as exc:
            return self._refused(exc)
        return None

    def _refused(self, exc: KubeError) -> Step:
        """A refusal is final for this call: the client has tried again what passes by itself."""
        return Step(Do.DONE, Phase.BLOCKED, failure(exc))
