"""Authentication and permissions: `fairlead keys`, `can`, `accounts` and `logout`."""
