"""Grants that users made for servers: how they are sealed, where they are stored, and how they end."""
