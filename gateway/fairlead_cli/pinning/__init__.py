"""Definitions that are held back, shown and let through: `fairlead diff` and `fairlead approve`."""
