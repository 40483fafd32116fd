"""XML, metadata and states of a domain, read into plain data. Pure.

Text and numbers go in, a DomainSpec and the core's words come out. It makes no call and knows no
connection, host or store.
"""
