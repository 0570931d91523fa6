"""Prometheus collectors, which read recorded numbers at scrape time, in a thread.

`exposition` has the text format and the metrics of calls; `guards` those of servers' guards; `latencies` those of
measured latency and tiers. `governance` and `custom.exposition` have collectors of their own.
"""
