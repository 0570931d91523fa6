"""Execution of the tool calls in a model's message."""
