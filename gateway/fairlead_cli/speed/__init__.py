"""Latency of tools: `fairlead tiers`, `explain`, `scores`, `leaderboard`, `predict` and `telemetry`."""
