"""The formats of model providers, one file per provider; a new file is a new format, everywhere.

Every module has FORMATS, a tuple of `ProviderFormat`: tools, messages, and what tools cost in it. `registry` imports
all modules of this folder and has their formats by name; nothing else lists them.
"""
