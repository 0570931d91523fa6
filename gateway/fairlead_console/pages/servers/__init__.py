"""Pages about servers: their states, and what to do about a server that does not work."""
