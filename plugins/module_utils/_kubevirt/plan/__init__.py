"""The nodes and VMs of a cluster, for the plan of a roll."""
