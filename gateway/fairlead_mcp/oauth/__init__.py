"""Access tokens for the calls of one server: client credentials and token exchange, with the discovery that they need.

Start at `TokenSource`. Parsers and forms are pure; only `TokenHttp` sends requests.
"""
