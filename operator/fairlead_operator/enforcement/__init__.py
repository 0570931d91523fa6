"""Finds out whether the cluster enforces NetworkPolicies, which its API server takes either way: `probe` makes two pods
and a policy, `kept_answer` keeps the answer, `simulated` stands in for nodes. See docs/install/network-policies.md.
"""
