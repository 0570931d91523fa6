"""Latency aggregates of public tools that installations may exchange: one histogram per definition, in a file.

`tally` counts on the path of a call, and only where `FAIRLEAD_AGGREGATES` asks for it; `file` is what is written, read
and merged. Nothing here knows a network: a file goes where a person sends it.
"""
