"""Page with configuration snippets for MCP clients."""
