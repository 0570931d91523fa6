"""HTTP APIs as tools: compiles OpenAPI documents to tool definitions, and makes the HTTP requests of calls.

Pure, except for `compiling.worker`, which runs a compilation in a separate process.
"""
