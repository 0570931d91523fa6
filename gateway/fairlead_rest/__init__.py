"""Everything over HTTP that is not MCP: the FastAPI application, with a module for each resource.

`context` holds what all resources share. Clients are let in by `fairlead_web.guard`, and heavy work is done by
`fairlead_offers.workers`.
"""
