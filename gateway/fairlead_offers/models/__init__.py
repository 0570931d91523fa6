"""Facts of models, and models that the gateway itself asks."""
