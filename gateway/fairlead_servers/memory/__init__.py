"""Server `memory`: the cold layer of an agent's memory."""
