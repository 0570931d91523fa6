"""A call through the gateway: the price of the hop, the path without sockets, what else is asked, other proxies."""
