"""HTTP requests from the arguments of calls, and `tools/call` results from the answers. No I/O.

OpenAPI 3.0 and 3.1: Parameter Object, Media Type Object, Encoding Object, Security Requirement Object.
"""
