"""How fast tools are: `fairlead tiers`, `explain`, `scores`, `leaderboard`, `predict` and `telemetry`."""
