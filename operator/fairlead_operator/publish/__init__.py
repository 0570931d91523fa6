"""Writes the documents from which gateways serve, when their content changes.

`catalogs` writes one document per server, `compile` and `rules` the rules document, `servers` the servers document.
`policies` writes the statuses of ToolPolicies; `default_tiers` and `configured_tiers` provide the tiers of an
installation without LatencyTiers.
"""
