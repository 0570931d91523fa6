"""Effective ToolPolicies: which tools their rules match, and how several policies merge.

Shared by the gateway, which decides by it, and the operator, which says in `status` what a policy does.
"""
