"""Costs of access control: identities, tool policies, limits and the audit log."""
