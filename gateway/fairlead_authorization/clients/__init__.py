"""Clients: by a document at their URL, by registration, or by the configuration."""
