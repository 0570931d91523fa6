"""Routes below `/v1`, with one module per resource. Each module must have a function `router(context)`."""
