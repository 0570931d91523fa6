"""Authentication and permissions: `fairlead keys` and `fairlead can`."""
