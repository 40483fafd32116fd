"""The platform KubeVirt: one node that is drained, through the Kubernetes API.

What modules call lies at the top: service (a slice of a drain), declare, options. The rooms below
read and ask; KubeVirt's controllers carry out. libvirt is not known here, and nothing exits.
"""
