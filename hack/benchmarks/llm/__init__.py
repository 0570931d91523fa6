"""Endpoints in front of models."""
