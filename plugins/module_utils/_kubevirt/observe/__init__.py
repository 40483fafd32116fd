"""What the cluster says about one node and its VMs, in the form that the core decides on."""
