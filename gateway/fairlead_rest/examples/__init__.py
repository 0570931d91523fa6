"""Examples of the OpenAPI document, each as it was sent or answered by a gateway over the demo server."""
