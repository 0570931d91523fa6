"""HTTP/1.1 towards MCP servers: `connection` (one), `pool` (many), `target` (where and with which headers)."""
