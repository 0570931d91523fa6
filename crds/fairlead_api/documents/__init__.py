"""The documents that the operator publishes for gateways: catalog, state, rules, servers and pins.

The documents are a contract between two programs that may have different versions: JSON with a `kind` and a `version`,
whose readers ignore unknown members. The documents are msgspec Structs instead of pydantic models for two reasons: a
definition has to be kept byte for byte as the server sent it (`msgspec.Raw`), and a gateway decodes documents under
load.

`catalog`, `state`, `rules`, `servers` and `pins` define the documents; `codec` encodes and decodes them; `store` splits
the bytes into ConfigMaps and assembles them. Nothing in this package does I/O.
"""
