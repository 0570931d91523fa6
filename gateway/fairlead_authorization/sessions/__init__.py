"""Sign-ins of users by clients: codes, refresh tokens, consents, and the keys that sign access tokens."""
