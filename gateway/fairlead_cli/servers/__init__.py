"""The life of servers, seen and hurried: `fairlead servers`, `refresh`, `events` and `logs`."""
