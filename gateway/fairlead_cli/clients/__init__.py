"""`fairlead client`: writes the configuration of MCP clients, so that they use a gateway."""
