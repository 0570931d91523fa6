"""Authorization server of the gateway (RFC 6749). People sign in at the company's OpenID providers.

Clients need only the gateway's URL.

`clients` identifies clients, `sessions` stores their access, `protocol` answers browsers and clients.
"""
