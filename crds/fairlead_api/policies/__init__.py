"""Effective ToolPolicies: which tools their rules match, and how several policies merge.

The gateway enforces policies with it, and the operator reports a policy's effect in its `status`.
"""
