"""Base of every benchmark: rounds and reports, processes and their share of a core, the load generator in C."""
