"""`fairlead client`: configures MCP clients to use a gateway."""
