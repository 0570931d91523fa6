"""Routes: the parameters of calls of one tool, prompt or resource, prepared before there are any."""
