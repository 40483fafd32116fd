#!/usr/bin/env python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory: the nodes of the KubeVirt scenarios. VIRTOPS_NODES names three of a real cluster."""

from __future__ import annotations

import json
import os


def main() -> None:
    names = os.environ.get("VIRTOPS_NODES", "n1,n2,n3").split(",")
    nodes = {"hosts": names, "vars": {"maintenance_platform": "kubevirt"}}
    print(json.dumps({"_meta": {"hostvars": {}}, "nodes": nodes}))


if __name__ == "__main__":
    main()
