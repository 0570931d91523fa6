"""What the gateway keeps for the operator to fetch: how long each attempt took, and what else it saw or was asked.

Recorded on the path of a call (`samples`), put together and served when the operator asks (`outbox`, `endpoint`).
"""
