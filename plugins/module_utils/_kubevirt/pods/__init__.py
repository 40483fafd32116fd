"""The other pods of a node: which of them have to go, and making them go.

`filters` judges by the filters of kubectl drain (pure), `read` looks at a node's pods, `evict` asks
them to go, again while a budget refuses. VMs are not its business.
"""
