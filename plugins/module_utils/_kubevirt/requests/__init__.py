"""Requests to KubeVirt, one at a time: evict, migrate, withdraw, sign.

Each function makes its request once and says what the answer means. When to ask, and how often, is
decided by its callers.
"""
