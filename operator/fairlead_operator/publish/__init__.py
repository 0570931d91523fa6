"""Writes the documents that the gateway serves from: `catalogs` one per server, `compile` and `rules` the one of rules.

`policies` keeps what a ToolPolicy's status says, `default_tiers` and `configured_tiers` the tiers of who declares none.
Nothing is written that says what is already stored.
"""
