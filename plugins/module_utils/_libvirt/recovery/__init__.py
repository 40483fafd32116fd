"""A host that died: what its peers keep of it, how it looks from one of them, and its VMs started elsewhere.

`keep` runs on the host while it lives; `look` and `service` on a peer. What is started where decides the core's
`recovery`; nothing is started here that it did not name, and nothing before the record says so.
"""
