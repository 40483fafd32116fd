# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the option metrics, which several KubeVirt modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Where KubeVirt's metrics are read."""

    DOCUMENTATION = r"""
options:
  metrics:
    description:
      - A server with the API of Prometheus that collects KubeVirt's metrics. It reports what guests
        write to their memory, C(dirty_rate) of a VM's document. Without O(metrics.url) it is not
        known.
      - The metric is C(kubevirt_vmi_dirty_rate_bytes_per_second), which KubeVirt has from 1.6 on.
        The newest sample counts that is not older than 5 minutes. KubeVirt 1.9 and newer does not
        measure a VM while it migrates; within a run the last value holds then.
      - One request for all VMs, not more often than every 30 seconds. A drain and a preflight ask
        only if a rule names C(dirty_rate); check mode of a drain asks always, for the times.
      - A server that does not answer, that refuses, or that has no such samples is a warning with
        its URL and its answer. C(dirty_rate) is then not known, and a rule that compares it goes by
        its C(unknown). A wrong option is an error, and nothing is touched.
      - The server is reached directly, without a proxy, and no redirect is followed.
    type: dict
    default: {}
    suboptions:
      url:
        description:
          - URL of the server, to which C(/api/v1/query) is added, for example
            C(https://thanos-querier.openshift-monitoring.svc:9091).
        type: str
      token:
        description: Bearer token. It goes in the clear if O(metrics.url) is not C(https).
        type: str
      ca_cert:
        description: File of the certificate authority. Default is those of the system.
        type: path
      validate_certs:
        description: Whether the server's certificate is checked.
        type: bool
        default: true
      timeout:
        description: Seconds to wait for the answer, the connection included. At most 15.
        type: float
        default: 5.0
      labels:
        description:
          - Further labels that a series must have, label to value, for example C(cluster). Needed if one server has the
            metrics of several clusters.
        type: dict
"""
