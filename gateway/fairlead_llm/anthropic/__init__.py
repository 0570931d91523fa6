"""Anthropic Messages: requests, answers and streams. Pure modules."""
