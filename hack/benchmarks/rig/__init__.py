"""Base of all benchmarks: rounds and reports, processes and their processor time, the load generator in C."""
