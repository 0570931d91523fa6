"""Authorization server in front of the company's OpenID providers (RFC 6749), so that a client needs the URL alone.

`clients` says who a client is, `sessions` keeps what it was given, `protocol` answers browsers and clients.
"""
