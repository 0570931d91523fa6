"""Subscriptions of clients to resources and tasks, at servers of both eras of MCP."""
