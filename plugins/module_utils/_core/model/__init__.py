"""The words of the core, as plain data: observation, policy, record, constraints.

Platforms fill them in, deciding reads them. They hold no decision, and know reasons only.
"""
