"""The wire: MCP framing, both protocol eras, HTTP and child-process transports.

Used by the operator (discovery) and by the gateway (calls). It knows no resources, no policies and no
cluster, and stays free of pydantic, the MCP SDK and general HTTP clients: it is on the path of every call.
"""
