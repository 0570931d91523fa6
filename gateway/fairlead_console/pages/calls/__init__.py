"""Pages about recent calls of this replica: a live list, and the timeline of one call."""
