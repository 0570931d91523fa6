"""`fairlead bridge`: an MCP endpoint for clients that only start programs."""
