"""The side towards servers: one runtime object per server, which outlives snapshots while nothing about it changed.

`base` says what an upstream is; `http`, `child` and `link` are the kinds of it (the latter two share `lines`);
`registry` makes, keeps and retires them. In front of each stands a `guard`: its breaker, its limits, its queue.
"""
