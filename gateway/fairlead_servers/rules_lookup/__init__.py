"""Server `rules-lookup`: rules of games, from files."""
