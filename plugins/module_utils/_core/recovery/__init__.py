"""A host that died: how it looks, what proves that it is off, what is started where.

In: what observers saw, what its peers keep of its VMs, what is now on the other hosts. Out: a judgement, and for each
VM where it is to be started or why it stays. It may not know how a platform reads, fences or starts.
"""
