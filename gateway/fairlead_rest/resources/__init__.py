"""The routes below `/v1`, one module per resource. A module here that has `router(context)` is served and described."""
