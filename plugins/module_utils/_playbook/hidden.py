"""Secrets that no option of its own holds: hidden on each ansible-core.

Up to 2.21 a module's result has no value of the module's no_log_values. Since 2.22 it has them all: a module registers
what is secret, and the controller hides that wherever it shows something, to the end of the playbook. The line
"Invoked with" is in the host's log before a module can say anything, so an option's type says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible.module_utils.common.validation import check_type_str

from .._core.model.addresses import passwords_in

try:
    from ansible.module_utils.secrets import register_secrets
except ImportError:  # before 2.22

    def register_secrets(values: Iterable[str]) -> None:
        """The log has no password of an address there, and the result is for `hide`."""


def hide(module: Any, values: Iterable[str]) -> None:
    """Hide these values in everything that is shown of this module's call."""
    secrets = set(values)
    module.no_log_values.update(secrets)
    register_secrets(secrets)


class OptionType(str):
    """A type of Ansible's by its name, as the documentation has it, that reads the value by `take`."""

    def __new__(cls, name: str, take: Callable[[Any], Any]) -> OptionType:
        made = super().__new__(cls, name)
        made.take = take
        return made

    take: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return self.take(value)


def _address(value: Any) -> str:
    text = check_type_str(value)
    register_secrets(passwords_in(text))
    return text


ADDRESS = OptionType("str", _address)
