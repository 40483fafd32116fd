"""The action plugins that call the module of their own name: once, or slice by slice. They decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ._controller import own_run, own_uuid
from ._given import given
from ._module import run_module
from ._rules import check_hooks, check_rules
from ._slices import run_slices
from ._unanswered import Unanswered

Doc = dict[str, Any]


class Called(ActionBase):
    """Checks the rules here, and calls the module, again while its API does not answer."""

    MODULE = ""
    TELLS_WHO = True  # which machine this is: it may be a VM that the module would stop
    _supports_check_mode = True
    # Says where the host is in its roll; set by who runs this action in a roll.
    position: Callable[[], str] | None = None

    def run(self, tmp: Any = None, task_vars: Any = None) -> Doc:
        base = super().run(tmp, task_vars)
        self._vars: Mapping[str, Any] = task_vars or {}
        self.check()
        return {**base, **self.result()}

    def check(self) -> None:
        """Raises AnsibleActionFail for what is wrong with the options, before anything is connected to."""
        check_rules(self._task.args)

    def options(self) -> Doc:
        """The module's options as the task gives them; for modules that ask for it with the controller's UUID."""
        own = {"controller_uuid": own_uuid()} if self.TELLS_WHO else {}
        return {**own, **given(self._task.args)}

    def execute(self, module: str, args: Doc) -> Doc:
        return run_module(self, module, args, self._vars)

    def call(self, args: Doc) -> Doc:
        return self.execute(self.MODULE, args)

    def result(self) -> Doc:
        return dict(Unanswered(Display().display).patient(self.call, not self.position)(self.options()))


class Sliced(Called):
    """`GOOD`: wanted state -> the phase that reaches it."""

    GOOD: ClassVar[Mapping[str, str]] = {}

    def result(self) -> Doc:
        return run_slices(self.call, self.options(), self.GOOD, bool(self._task.check_mode), self.position)


class Drains(Sliced):
    """A node or host as a whole."""

    GOOD: ClassVar[Mapping[str, str]] = {"drained": "Drained", "cordoned": "Cordoned", "active": "Active"}

    def check(self) -> None:
        super().check()
        check_hooks(self._task.args, self._loader)

    def options(self) -> Doc:
        return {"roll_run": own_run(), **super().options()}


class Moves(Sliced):
    """One VM."""

    GOOD: ClassVar[Mapping[str, str]] = {"migrated": "Migrated", "aborted": "Active"}


__all__ = ["Called", "Drains", "Moves"]
