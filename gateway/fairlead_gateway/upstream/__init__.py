"""The side towards servers: one runtime object per server, which outlives snapshots while nothing about it changed.

`http`, `child` and `link` are the kinds of upstream (the latter two share `shared_stream`);
`registry` makes, keeps and retires them. In front of each stands a `guard`: its breaker, its limits, its queue.
"""
