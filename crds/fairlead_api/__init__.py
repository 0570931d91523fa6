"""Shared by all programs: custom resources (`v1alpha1`), documents from operator to gateway, files of MCP clients.

Every package of Fairlead may import this package. This package imports no other package of Fairlead and no framework,
and does no network or event-loop work. `kubectl explain` shows the docstrings of the resources' fields.
"""
