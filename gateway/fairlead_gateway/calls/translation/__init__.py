"""A call and its result from one era of MCP to the other, and errors in the terms of the client's era."""
