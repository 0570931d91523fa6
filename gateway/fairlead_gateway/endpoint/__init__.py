"""The gateway's side towards clients: HTTP connections, parsing and checks of requests, methods answered without a
server, and notification streams.

`inbound` and `responses` are pure modules; only `uvicorn_protocols` depends on uvicorn.
"""
