"""Parts that the wire formats of all families share: their interfaces, raw JSON, call ids, errors. Pure modules."""
