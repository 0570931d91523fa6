"""Providers of models, tools that models are offered, the calls that they make, and the account of all that."""
