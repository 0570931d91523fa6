"""Conversion between the formats of model providers: requests, answers, tools and tokens. Needs no gateway.

Pure package: no I/O, no framework, no import of the gateway. Tools, calls and results are converted through their form
in MCP. `providers` has a folder per family of providers, and `wire` has the parts that the requests, answers and
streams of all families share. `neutral` is the form between two families, through which `pairs` serves a client of one
family with a provider of another family. docs/connect/formats.md shows how to use the package from Python.
"""
