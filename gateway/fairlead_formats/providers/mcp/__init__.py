"""MCP, the form through which all other formats are converted: tools and messages. Pure modules."""
