"""Tools in the formats of model providers: definitions, names, and what a format cannot hold.

Pure package: no I/O, no framework. MCP is canonical; every other format converts from it and to it, so that provider
to provider goes through MCP. Used by the REST plane, the command line and the Python API; never by the path of an MCP
call.
"""
