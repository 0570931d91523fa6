"""Parts that wire formats of all families share: their protocol, raw JSON, ids of calls, errors. Pure modules."""
