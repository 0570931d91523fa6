"""Server `memory`: an agent's long-term memory of past sessions, entities and facts."""
