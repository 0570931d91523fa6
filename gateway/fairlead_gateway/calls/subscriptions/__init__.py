"""Subscriptions of clients to resources and tasks, at servers of either era."""
