"""Benchmarks of `fairlead up` on a laptop: processes and memory."""
