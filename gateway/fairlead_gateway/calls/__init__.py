"""Calls of clients to servers, from routing to the recorded answer. `calls.path` has the entry point.

docs/reference/calls.md lists the checks, limits and codes of a call.
"""
