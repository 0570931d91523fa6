"""Requests, answers, tools and tokens in the formats of model providers, one folder per family; needs no gateway.

Pure package: no I/O, no framework, nothing of the gateway's. MCP is canonical for tools, calls and results; every other
format converts from it and to it, so that provider to provider goes through MCP. `providers` has a folder for each
family; `wire` is what requests, answers and streams of all of them share, `neutral` what no family has, and `pairs`
puts a client of one in front of a provider of another. How to use it from Python: docs/connect/formats.md.
"""
