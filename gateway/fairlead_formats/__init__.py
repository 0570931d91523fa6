"""Tools, calls, results and their tokens in the formats of model providers; needs no gateway.

Pure package: no I/O, no framework, nothing of the gateway's. MCP is canonical; every other format converts from it and
to it, so that provider to provider goes through MCP. How to use it from Python: docs/connect/formats.md.
"""
