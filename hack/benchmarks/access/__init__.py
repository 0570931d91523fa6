"""Who asks, what they may call and how much of it: what identities, tool policies, limits and the audit log cost."""
