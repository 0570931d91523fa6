"""Which tools there are, why one is hidden, what it costs, and a form to try it."""
