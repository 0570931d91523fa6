"""Finds out whether the cluster enforces NetworkPolicies; the API server accepts them in any case.

`probe` creates two pods and a policy, `kept_answer` stores the answer, `simulated` replaces nodes in tests. See
docs/install/network-policies.md.
"""
