"""Access tokens for the calls of one server: client credentials, token exchange and the consent of users, with the
discovery and registration that they need.

Start at `TokenSource`, and for sign-ins at `ConsentFlow`. Parsers and forms are pure; only `TokenHttp` sends requests.
"""
