"""Tools for models: `fairlead convert` and `fairlead plan`, and the output of tools in a provider's format."""
