"""Tools for models: `fairlead convert` and `fairlead plan`, and tools in the form of a provider."""
