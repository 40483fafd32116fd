"""The connection to a node of the simulator: commands run here, but its reboot is the node's."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from ansible.plugins.connection.local import Connection as Local

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kubesim.kinds import NODES
from kubesim.remote import Remote

DOCUMENTATION = """
name: simulated_node
short_description: a node of the simulator
description: Commands run on this machine; the boot id and the reboot are the node's.
author: virtops.maintenance
extends_documentation_fragment: connection_pipelining
"""


class Connection(Local):
    transport = "simulated_node"

    def exec_command(self, cmd: str, *args: Any, **more: Any) -> tuple[int, bytes, bytes]:
        if "boot_id" in cmd:
            return 0, self._info()["bootID"].encode(), b""
        if "shutdown" in cmd:
            info = {**self._info(), "bootID": secrets.token_hex(8)}
            name = self._play_context.remote_addr
            self._cluster().patch(NODES, name, {"status": {"nodeInfo": info}})
            return 0, b"", b""
        return super().exec_command(cmd, *args, **more)

    def _cluster(self) -> Remote:
        return Remote(Path(os.environ["VIRTOPS_SIMULATOR"]))

    def _info(self) -> dict[str, Any]:
        node = self._cluster().find(NODES, self._play_context.remote_addr)
        return node["status"]["nodeInfo"]
