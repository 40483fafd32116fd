#!/usr/bin/env python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory: the hosts of molecule's lab, if it is up."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))

from lab.names import Paths


def main() -> None:
    lab = os.environ.get("VIRTOPS_LAB", "lab")
    file = Paths.of(f"{lab[:20]}-molecule").inventory
    hosts, variables = {}, {}
    if file.exists():
        # Below its first line, a comment, the lab writes JSON.
        group = json.loads(file.read_text(encoding="utf-8").partition("\n")[2])["lab"]
        hosts, variables = group["hosts"], group["vars"]
    print(json.dumps({"_meta": {"hostvars": hosts}, "lab": {"hosts": list(hosts), "vars": variables}}))


if __name__ == "__main__":
    main()
