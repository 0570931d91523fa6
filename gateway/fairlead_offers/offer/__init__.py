"""Tools that are put into a request to a model, and its calls of them."""
