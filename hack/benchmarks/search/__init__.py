"""Search of tools: quality and speed."""
