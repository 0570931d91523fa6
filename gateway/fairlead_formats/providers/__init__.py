"""The formats of model providers, one folder per family of APIs. A new folder adds its formats to the whole gateway.

Each folder has a module `tools` with FORMATS, a tuple of `ProviderFormat`. Only `registry` lists the formats: it
imports FORMATS of every folder. A family to which the gateway sends requests has two more: the module `format` with its
`WireFormat`, and the folder `translation`, which converts its requests and answers between the API's form and the
neutral form (`fairlead_formats.neutral`).
"""
