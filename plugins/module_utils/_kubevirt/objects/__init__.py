"""What objects of Kubernetes and KubeVirt say, read into the core's words. Pure.

Dictionaries go in, plain answers come out: phases, conditions, taints, quotas, affinity, policies,
who asked for a migration. It makes no request.
"""
