"""Authentication of clients: identities and authenticators. docs/install/authentication.md explains the setup."""
