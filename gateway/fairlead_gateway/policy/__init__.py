"""Which tools an endpoint shows: the one decision that both a list and a call go by."""
