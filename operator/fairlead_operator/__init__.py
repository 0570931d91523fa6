"""The operator: runs the servers of `McpServer` objects, discovers their tools, and publishes documents for
gateways.

It runs on a cluster (with Kopf) and, with other adapters, inside `fairlead up`. It connects to MCP servers through
`fairlead_mcp`, and polls gateways for measurements; gateways receive its decisions through the published documents.
"""
