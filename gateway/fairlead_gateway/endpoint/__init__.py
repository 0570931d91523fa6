"""The client side: HTTP connections, classification of requests, and methods answered without a server.

`inbound` and `responses` are pure modules; only `uvicorn_protocols` depends on uvicorn.
"""
