"""HTTP that every ASGI application of the gateway shares: who may come in, bodies, problem documents, probes."""
