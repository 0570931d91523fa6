"""Runs the calls that a model's message asks for."""
