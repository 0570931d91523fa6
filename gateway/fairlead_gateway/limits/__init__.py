"""Limits on calls, tokens and buffered bytes per agent, tool and server, and fair queues for busy servers."""
