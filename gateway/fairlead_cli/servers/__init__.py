"""State of servers: `fairlead servers`, `refresh`, `events` and `logs`."""
