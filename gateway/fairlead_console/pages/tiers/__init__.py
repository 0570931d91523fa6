"""Page about latency tiers: the tools that each shows and hides, and those that are close to its limit."""
