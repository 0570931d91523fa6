"""How a client is connected: one snippet for each, from the table that `fairlead client setup` writes by."""
