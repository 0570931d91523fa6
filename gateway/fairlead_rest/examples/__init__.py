"""Examples for the OpenAPI document: requests to a gateway with the demo server, and its answers."""
