"""Messages of a server to the client during a call: progress, log messages, and requests, called questions here."""
