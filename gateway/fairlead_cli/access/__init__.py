"""Who may come in, and what they may call: `fairlead keys` and `fairlead can`."""
