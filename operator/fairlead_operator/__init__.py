"""The operator: runs the servers of `McpServer` objects, discovers their tools, and publishes documents for
gateways.

The operator runs on a cluster (with Kopf) and, with other adapters, inside `fairlead up`. It connects to MCP servers
through `fairlead_mcp`, and polls gateways for measurements. Gateways receive its decisions through the published
documents.
"""
