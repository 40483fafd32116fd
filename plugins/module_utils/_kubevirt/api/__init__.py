# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the API and what comes back: authentication, retries, watches, errors.

Above it nobody speaks HTTP. The cluster's own object and the metrics are read here too. It knows no
drain.
"""
