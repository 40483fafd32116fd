"""The records of a drain on hosts: its record, definitions, copies on peers, reservations.

Written before the acts that they cover, read again by the run that carries on. It decides nothing:
which text counts is said by generations, what it means by the core.
"""
