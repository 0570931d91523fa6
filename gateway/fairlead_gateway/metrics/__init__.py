"""What is told at /metrics: collectors that read at scrape time, in a thread, what the path of a call left in numbers.

`exposition` has the format, and the calls that `telemetry` recorded; `guards` what stands in front of servers;
`latencies` what was measured and decided. Other parts bring collectors of their own: `accounting`, `custom.exposition`.
"""
