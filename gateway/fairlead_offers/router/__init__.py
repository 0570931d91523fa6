"""Tools of the router endpoint: search for tools, and retrieval of stored results."""
