"""Decides from latency samples which tiers show each tool, with the reasons.

All modules except `timekeeper` are pure: samples and the time are parameters. `timekeeper` receives samples, runs the
decisions, and publishes the state documents.
"""
