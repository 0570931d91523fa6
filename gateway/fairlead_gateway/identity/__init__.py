"""Authentication of clients: identities and authenticators. README.md tells how to set it up."""
