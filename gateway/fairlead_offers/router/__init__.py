"""Tools of the router endpoint: searching, and reading what was kept."""
