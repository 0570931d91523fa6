"""Speech sessions of models with the tools of the gateway: a bridge between a client and a provider, by WebSocket."""
