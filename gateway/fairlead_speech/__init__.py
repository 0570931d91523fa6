"""Speech sessions over WebSockets. The gateway sits between a client and a model's provider, and adds its own tools."""
