"""Observe one node of the cluster and its VMs, in the form that the core decides on."""
