"""Prometheus collectors, which read recorded numbers at scrape time, in a thread.

`exposition` has the text format and the metrics of calls; `guards` has the metrics of circuit breakers, schema checks
and caches; `latencies` has the metrics of measured latency and tiers. The modules `governance` and `custom.exposition`
have their own collectors.
"""
