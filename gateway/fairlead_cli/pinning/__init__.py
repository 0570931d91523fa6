"""Review and approval of held-back definitions: `fairlead diff` and `fairlead approve`."""
