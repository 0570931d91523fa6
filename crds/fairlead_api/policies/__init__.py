"""Evaluation of ToolPolicies: which tools their rules match, and how several policies are merged.

The gateway enforces policies with this package, and the operator reports a policy's effect in the policy's `status`.
"""
