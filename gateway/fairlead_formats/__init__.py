"""Conversion between the formats of model providers: requests, answers, tools and tokens. Needs no gateway.

Pure package: no I/O, no framework, no import of the gateway. Tools, calls and results are converted through their form
in MCP. `providers` has a folder per family of providers; `wire` has what all their requests, answers and streams share,
`neutral` the form between two families, and `pairs` serves clients of one family with a provider of another.
docs/connect/formats.md shows how to use the package from Python.
"""
