"""The gateway: serves the tools of a catalog to MCP clients and passes their calls on.

It reads the documents that the operator publishes and never the resources themselves; it knows nothing
of the operator and keeps serving the last catalog when the source of the documents is gone.
"""
