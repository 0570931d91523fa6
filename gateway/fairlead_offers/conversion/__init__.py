"""Definitions and messages in the form of a provider, and their size in tokens."""
