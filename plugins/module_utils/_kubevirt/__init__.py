# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The platform KubeVirt: one node that is drained, through the Kubernetes API.

What modules call lies at the top: service (a slice of a drain), declare, options. The rooms below
read and ask; KubeVirt's controllers carry out. libvirt is not known here, and nothing exits.
"""
