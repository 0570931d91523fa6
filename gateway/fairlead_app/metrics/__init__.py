"""Metrics at /metrics: collectors that read at scrape time, in a thread, the numbers that the path of a call left.

`exposition` has the format, and the calls that `telemetry` recorded; `guards` the guards of servers; `latencies`
measurements and tier decisions. Other parts bring collectors of their own: `governance`, `custom.exposition`.
"""
