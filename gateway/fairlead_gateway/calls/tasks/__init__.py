"""Tasks of servers (SEP-2663): which calls may become tasks, requests about tasks, and waiting for their results."""
