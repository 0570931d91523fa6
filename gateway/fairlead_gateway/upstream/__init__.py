"""The side towards servers: one runtime object per server, which outlives snapshots while nothing about it changed.

`base` says what an upstream is; `http` and `child` are the two kinds; `registry` makes, keeps and retires them.
"""
