"""A call through the gateway: the cost of the hop, the path without sockets, other kinds of requests, other proxies."""
