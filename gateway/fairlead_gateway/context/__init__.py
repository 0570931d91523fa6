"""Results of tools, kept per principal and session, to be read again in place of being kept in a model's context."""
