"""The documents that the operator publishes and the gateway serves from: catalog, state, rules and servers.

A contract between two programs that may be of different versions: JSON with a `kind` and a `version`, readers ignore
members that they do not know. They are msgspec Structs and not pydantic models because a definition has to come out
byte for byte as the server sent it (`msgspec.Raw`), and because decoding stays in the loop of a gateway under load.

`catalog`, `state`, `rules` and `servers` hold the shapes; `codec` turns them into bytes and back; `store` cuts the
bytes into ConfigMaps and puts them together again. Nothing here does I/O.
"""
