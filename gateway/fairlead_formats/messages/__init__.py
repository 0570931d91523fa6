"""Tool calls and their results in the formats of model providers, read and written, whole and streamed.

Pure package: no I/O, no framework. The common form is MCP's: a call is a name with arguments, a result is a
`CallToolResult` (specification 2026-07-28) as decoded JSON. Content from a model or a client is not trusted: an
unreadable call becomes an invalid call with a reason that the model can act on, and other calls stay valid. `base` has
what all formats share; `fairlead_formats.registry` has the formats by name.
"""
