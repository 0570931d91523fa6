"""Benchmarks of model endpoints."""
