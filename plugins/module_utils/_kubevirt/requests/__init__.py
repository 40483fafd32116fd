"""What is asked of KubeVirt, one request at a time: evict, migrate, withdraw, sign.

Each function makes its request once and says what the answer means. When to ask, and how often, is
decided by its callers.
"""
