"""The records of a drain on the Node and on its Lease, and who may write there.

`node_record` is the record in the Node's annotations; `lease` lets one slice at a time work on a
node; `lease_notes` outlives a Node that somebody deletes. `roll` is the record of a roll, and `roll_fleet` the cluster
beside it. What a record means the core says.
"""
