"""The side towards clients: HTTP in, classification, and everything that is answered without asking a server.

`inbound` and `replies` are pure; `uvicorn_protocols` is the one module that knows uvicorn.
"""
