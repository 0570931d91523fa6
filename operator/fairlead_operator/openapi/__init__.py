"""Servers that are HTTP APIs: reads their OpenAPI documents, and lists the operations as tools.

The listing of such a server replaces a discovery over MCP. `fairlead_openapi` compiles the documents in a separate
process.
"""
