"""Writes the documents that the gateway serves from: `catalogs` one per server, `compile` and `rules` the one of rules.

Nothing is written that says what is already stored.
"""
