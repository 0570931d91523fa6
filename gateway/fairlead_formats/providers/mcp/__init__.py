"""MCP, from and to which all other formats convert: tools and messages. Pure modules."""
