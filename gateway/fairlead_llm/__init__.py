"""Endpoints in front of models: requests of any client get the tools that fit, and their calls are run."""
