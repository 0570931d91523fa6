"""HTTP/1.1 client for MCP servers: `target` for URLs, `pool` for connections, `reading` for answers."""
