"""The last calls of this replica, live, and what the time of each went to."""
