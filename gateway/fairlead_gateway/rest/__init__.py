"""Everything over HTTP that is not MCP: the FastAPI application, and the only package of the gateway that knows
pydantic.
"""
