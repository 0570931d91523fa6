"""Clients of three kinds: with a metadata document at their URL, registered, or configured."""
