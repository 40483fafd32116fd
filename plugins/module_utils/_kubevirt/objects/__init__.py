# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What objects of Kubernetes and KubeVirt say, read into the core's words. Pure.

Dictionaries go in, plain answers come out: phases, conditions, taints, quotas, affinity, policies,
who asked for a migration. It makes no request.
"""
