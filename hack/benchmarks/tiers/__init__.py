"""Latency tiers: the shipped rule on traces of tools that misbehave, replayed and live, and what a choice costs."""
