"""REST: conversions while tools are called, and planning of a model with the tools that fit."""
