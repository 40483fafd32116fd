"""Clusters in which nothing stands in the way of draining n1, as their API would show them.

Everything that a cluster may have and that looks like trouble to who reads it too fast: taints
that are tolerated, affinity that is met, nodes that take nothing beside some that do, quotas
with headroom and quotas of other pods, budgets that allow, claims that are shared, pods that
have ended. Always there is a node, n2, on which all fits.
"""

from .kubevirt import Clean

__all__ = ["Clean"]
