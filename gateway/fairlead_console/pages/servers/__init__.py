"""Pages about servers: their states, and what to do about one that does not work."""
