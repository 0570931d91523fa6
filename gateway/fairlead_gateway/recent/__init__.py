"""Stores the last calls of this gateway with their phases in memory, for `/v1/calls` and the console."""
