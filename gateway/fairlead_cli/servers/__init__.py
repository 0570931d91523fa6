"""The life of servers, seen and hurried: `fairlead refresh`, `fairlead events` and `fairlead logs`."""
