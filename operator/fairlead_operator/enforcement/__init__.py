"""Finds out whether the cluster enforces NetworkPolicies. The API server accepts them in either case.

`probe` creates two pods and a NetworkPolicy, `daily_probe` repeats the probe and stores its answer, and `simulated`
replaces the nodes in tests. See docs/install/network-policies.md.
"""
