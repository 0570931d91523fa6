"""The operator: from `McpServer` objects to running servers, discovered tools and published documents.

Runs on a cluster (Kopf) and, with other adapters, inside `fairlead up`. It speaks to MCP servers only
through `fairlead_mcp` and never to the gateway: the published documents are all they share.
"""
