"""Listing, searching and calling the tools of an endpoint: `fairlead tools`, `search` and `call`."""
