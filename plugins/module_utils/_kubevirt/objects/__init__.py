"""Objects of Kubernetes and KubeVirt, read into the core's words. Pure.

Dictionaries go in, plain answers come out: phases, conditions, taints, quotas, affinity, policies,
who asked for a migration. It makes no request.
"""
