"""The server side: one upstream per server, which is kept across snapshots while its configuration is unchanged.

`http`, `child` and `link` are the kinds of upstream (the latter two share `shared_stream`). `registry` creates and
retires them. Each has a `guard` with its limits, queue and circuit breaker.
"""
