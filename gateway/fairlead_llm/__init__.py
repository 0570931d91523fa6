"""Endpoints in front of models, which give each request the tools that fit and run the calls of the model."""
