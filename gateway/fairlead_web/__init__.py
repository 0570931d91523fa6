"""HTTP functions that all ASGI applications of the gateway share: authentication, bodies, problem documents, probes."""
