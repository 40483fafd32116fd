"""Derive the next actions from an observation, the records and a policy. Pure.

`decide` is the way in; `strategy` says what shall be done with a VM, `reconcile` where it is,
`placement` which node takes it; the others make the actions;
`certificate` is the only ground for "drained". It knows the model, no platform and no clock.
"""
