"""A Node that died: read, given the taint out-of-service once that is proven, and its VMs watched until they run."""
