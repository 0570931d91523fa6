"""Messages of a server to the client in the middle of a call: progress, log messages, questions."""
