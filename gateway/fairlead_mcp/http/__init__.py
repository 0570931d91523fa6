"""HTTP/1.1 towards MCP servers: `target` (where), `exchange` (one), `pool` (many), `reading` (what an answer means)."""
