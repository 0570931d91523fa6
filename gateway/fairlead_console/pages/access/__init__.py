"""Who may call a tool, and the rule that decides."""
