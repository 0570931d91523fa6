"""OAuth client: access tokens for calls of MCP servers, by client credentials, token exchange or the consent of users,
with discovery and client registration.

Start at `TokenSource`, and for sign-ins at `ConsentFlow`. Parsers and forms are pure; only `TokenHttp` sends requests.
"""
