"""HTTP APIs as tools: compiles OpenAPI documents to tool definitions, and makes requests of calls

Pure, but for `compiling.worker`, which runs a compilation in a process of its own.
"""
