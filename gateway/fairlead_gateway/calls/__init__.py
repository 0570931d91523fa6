"""The path of a tool call: `dispatch` runs it, `translate` crosses the eras, `refusals` names what can go wrong.

README.md tells the life of a call, with every code and limit.
"""
