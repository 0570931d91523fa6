"""The path of a tool call, from its route to the recorded answer; `path` runs it.

docs/reference/calls.md lists the checks, limits and codes of a call.
"""
