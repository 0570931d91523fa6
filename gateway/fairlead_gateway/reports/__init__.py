"""Reports for the operator to fetch: the duration of each attempt, unreachable servers and requested refreshes.

Recorded on the path of a call (`samples`), put together and served when the operator asks (`outbox`, `endpoint`).
"""
