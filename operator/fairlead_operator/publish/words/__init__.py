"""Words in what people say that ask for one of the shipped tiers, one list per reason."""
