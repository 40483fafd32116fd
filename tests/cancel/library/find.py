"""Stands in for the module find: the command for the reboot of a simulated node."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    spec = {name: {"type": "raw"} for name in ("paths", "patterns", "file_type")}
    AnsibleModule(argument_spec=spec).exit_json(files=[{"path": "/simulated/shutdown"}])


if __name__ == "__main__":
    main()
