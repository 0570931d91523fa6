"""Server `rules-lookup`: search in rules of games, from files."""
