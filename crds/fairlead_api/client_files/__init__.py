"""Configuration files of MCP clients: finding them, reading their entries and editing them. No I/O."""
