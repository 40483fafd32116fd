# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who was asked is not there or does not answer: raised in several rooms."""

from __future__ import annotations


class VMNotHere(Exception):
    """The VM that was asked for is not where it was asked for."""


class PeerUnreachable(Exception):
    """A peer cannot be read, and nothing has begun yet."""


class HolderError(Exception):
    """The holder cannot be started, does not answer, or refuses an order."""


class HolderGone(HolderError):
    """The connection to the holder broke. Its migrations go on."""


class HolderSilent(HolderGone):
    """The holder is there and does not answer: what it does is not known."""
