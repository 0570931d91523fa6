"""Benchmarks of speech sessions."""
