"""The tools of an endpoint, listed and called: `fairlead tools` and `fairlead call`."""
