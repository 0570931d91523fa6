"""Configuration files of MCP clients: which there are, how each writes its servers, entries read and written. Pure."""
