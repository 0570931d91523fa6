"""Page about latency tiers: the tools that each tier hides, the tools that are close to its limit, and recent moves."""
