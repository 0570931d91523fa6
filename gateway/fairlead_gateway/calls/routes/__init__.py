"""Routes: the parameters of calls to one tool, prompt or resource, prepared once per snapshot."""
