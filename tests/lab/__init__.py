# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Real libvirt hosts on one machine, for tests, demo and benchmarks. See README.md."""

from .fleet import Lab
from .guest import GuestSpec
from .host import Host
from .names import LabError
from .needs import missing, need_lab, own_lab

__all__ = ["GuestSpec", "Host", "Lab", "LabError", "missing", "need_lab", "own_lab"]
