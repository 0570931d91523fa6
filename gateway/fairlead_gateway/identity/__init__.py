"""Who asks: identities of clients, and whoever vouches for them. README.md tells how to set it up."""
