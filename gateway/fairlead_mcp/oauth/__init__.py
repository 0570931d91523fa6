"""Access tokens for the calls of one server: client credentials and token exchange, with the discovery that they need.

Start at `fairlead_mcp.oauth.token_source.TokenSource`. Parsers and forms are pure; only `token_http` sends requests.
"""
