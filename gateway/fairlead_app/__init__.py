"""Composition of the gateway: settings become parts, which are wired, started, shown to operators, and stopped.

Nothing imports this package but the command line. `gateway` has the whole, `metrics` what Prometheus reads.
"""
