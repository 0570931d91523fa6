"""Requests of clients to servers (tools, prompts, resources, tasks), from routing to the recorded answer.

`calls.path.dispatch` has the entry point.

docs/reference/calls.md lists the checks, limits and codes of a call.
"""
