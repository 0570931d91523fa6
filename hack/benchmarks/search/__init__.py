"""Searching tools: quality and speed."""
