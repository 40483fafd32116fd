"""A roll: host after host of a fleet is drained, worked on and restored. Pure.

The record says which hosts, how far each one is, and who carries the roll on. `owner` says whether a
roll lives and who may touch a host of it, `stages` what a host may come to: a drain asks these two.
`rules` decide who may begin, carry on or take a turn; `run` reads, asks the rules, and writes what
they say, through a store that a platform gives. `words` has the sentences.
"""
