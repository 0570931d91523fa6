"""The formats of model providers, one folder per family. Adding a folder adds its formats everywhere.

Each folder has a module `tools` with FORMATS, a tuple of `ProviderFormat`. `registry` imports FORMATS of all folders;
nothing else lists the formats. A family that requests are sent to also has `format` with its `WireFormat`, and
`translation` with readers and writers of its requests and answers in neutral form (`fairlead_formats.neutral`).
"""
