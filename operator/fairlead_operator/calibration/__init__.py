"""Calibration: the operator calls tools itself (probes), to measure their latency before an agent calls them.

`minimal` generates arguments from a schema, `plan` decides which tools may be probed, `schedule` when each is due; all
are pure. `prober` makes the calls, over its own sessions, while this replica leads.
"""
