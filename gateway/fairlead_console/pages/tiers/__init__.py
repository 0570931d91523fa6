"""Tools that each latency tier shows and hides, and those that are close to its limit."""
