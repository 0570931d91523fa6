"""HTTP that all ASGI applications of the gateway share: authentication, sign-in and consent pages, bodies, probes."""
