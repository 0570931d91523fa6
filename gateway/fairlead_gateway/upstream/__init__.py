"""Connections to servers. Each server has one upstream, which stays the same until its configuration changes.

`http`, `child`, `link` and `openapi` are the kinds of upstream; `child` and `link` share `shared_stream`. `registry`
creates and retires upstreams. Each has a `guard` with its limits, queue and circuit breaker.
"""
