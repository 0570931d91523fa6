"""Latency measurements of public tools that installations may exchange: a file with one histogram per tool definition.

`tally` counts calls if `FAIRLEAD_AGGREGATES` enables it; `file` encodes, decodes and merges files. Nothing in this
package uses the network: people exchange the files themselves.
"""
