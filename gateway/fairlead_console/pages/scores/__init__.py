"""How fast tools are, by category, and whether they are as fast as they say."""
