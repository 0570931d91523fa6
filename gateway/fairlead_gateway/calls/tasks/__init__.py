"""Tasks of servers (SEP-2663): which call may become one, requests about it, and waiting for it."""
