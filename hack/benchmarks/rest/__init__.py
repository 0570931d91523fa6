"""The REST conversions beside the path of calls, and planning a model with the tools that fit."""
