"""How many calls: rates and counts per agent, tool and server, and whose turn it is where a server is busy."""
