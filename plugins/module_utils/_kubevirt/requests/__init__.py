# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of KubeVirt, one request at a time: evict, migrate, withdraw, sign.

Each function makes its request once and says what the answer means. When to ask, and how often, is
decided by its callers.
"""
