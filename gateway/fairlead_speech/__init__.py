"""Speech sessions over WebSockets: a bridge between a client and a model's provider, which adds the gateway's tools."""
