"""The formats of model providers, one folder per family; a new folder is a new format, everywhere.

Every folder has a module `tools` with FORMATS, a tuple of `ProviderFormat`: tools, messages, and what tools cost in it.
`registry` imports these of all folders and has their formats by name; nothing else lists them. A family that requests
are sent to also has `format`, its `WireFormat`, and `translation`, readers and writers of its requests and answers in
the form that no family has (`fairlead_formats.neutral`).
"""
