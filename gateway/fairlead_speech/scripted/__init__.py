"""Servers of speech models that follow a script, and speak the real wire formats."""
