"""Requests to the API and what comes back: authentication, retries, watches, errors.

Above it nobody speaks HTTP. The cluster's own object and the metrics are read here too. It knows no
drain.
"""
