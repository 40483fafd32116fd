"""Why a domain can move, or cannot: every obstacle that is known before it is tried.

In go a DomainSpec and the facts of both hosts, out come findings: for a migration (live), for a VM
that is off (cold), and where each disk's data is. It knows no holder, no record and no other VM.
"""
