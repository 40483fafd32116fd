"""kubesim: what a Kubernetes API server with KubeVirt does, as far as maintenance touches it.

A server on loopback that a real client talks to. Controllers of ours stand in for those of
Kubernetes and KubeVirt; knobs are annotations on the objects (lab/migrate-seconds and so on).
"""

from .cluster import Kubesim

__all__ = ["Kubesim"]
