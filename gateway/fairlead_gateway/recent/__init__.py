"""The last calls of this gateway, with what their time went to: kept in memory, within bounds, for people who look."""
