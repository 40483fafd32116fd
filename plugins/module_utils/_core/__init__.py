"""The decisions of a drain, for any platform. Pure: the standard library only.

The loop (engine) asks a platform for observations and hands it actions; result and diff say what
came of it. Nothing here knows Ansible, libvirt or Kubernetes, reads a file or a clock.
"""
