"""Claims on a target: may one stay, and is its owner dead? Pure.

Runs that know nothing of each other never fill a target too far by `admission`; `owners` says what
proves that nobody comes back for a claim. In go claims as they were read, out come verdicts.
"""
