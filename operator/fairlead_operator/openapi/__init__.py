"""Servers that are HTTP APIs: reads their OpenAPI documents and lists the operations as tools.

A listing of such a server takes the place of a discovery over MCP. `fairlead_openapi` compiles the documents, in a
process of its own.
"""
