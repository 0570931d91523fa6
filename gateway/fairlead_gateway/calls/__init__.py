"""The path of a tool call: `dispatch` runs it, `translate` crosses the eras, `refusals` names what can go wrong.

docs/reference/calls.md lists the checks, limits and codes of a call.
"""
