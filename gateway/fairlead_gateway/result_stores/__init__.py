"""Stored tool results per principal and session, which models can read again instead of keeping them in context."""
