"""Composition root of the gateway: creates all components from settings, and starts, monitors and stops them.

Only the command line imports this package. `compose` creates a `Gateway`; `metrics` has the Prometheus collectors.
"""
