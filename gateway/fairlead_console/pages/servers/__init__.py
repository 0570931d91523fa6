"""Which servers there are, how each fares, and what to do about one that does not answer."""
