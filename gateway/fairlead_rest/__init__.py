"""Everything over HTTP that is not MCP: the FastAPI application, with a module for each resource.

`context` is what all of them have in common, `guard` lets clients in, `worker` and `pool` are where heavy work is done.
"""
