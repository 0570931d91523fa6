"""Authentication of clients: identities and authenticators. docs/install/authentication.md tells how to set it up."""
