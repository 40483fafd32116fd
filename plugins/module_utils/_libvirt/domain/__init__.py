"""What libvirt says of a domain: XML, metadata and states, read into plain data. Pure.

Text and numbers go in, a DomainSpec and the core's words come out. It makes no call and knows no
connection, host or store.
"""
