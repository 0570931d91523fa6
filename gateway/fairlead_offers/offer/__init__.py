"""Offers of tools: adds tools to requests to models, and runs the models' calls of these tools."""
