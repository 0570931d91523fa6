"""REST API of the gateway: a FastAPI application with one module for each resource.

`context` has the objects that all resources share. `fairlead_web.guard` authenticates clients, and
`fairlead_offers.workers` does heavy work.
"""
