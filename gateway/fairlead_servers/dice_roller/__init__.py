"""Server `dice-roller`: dice expressions, and tables to roll on."""
