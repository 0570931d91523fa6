"""Grants that persons made for servers: how they are sealed, where they are kept, and how they end."""
