"""Tool calls and their results in the formats of model providers, both ways, whole and streamed.

Pure package: no I/O, no framework. The common form is MCP's: a call is a name with arguments, a result is a
`CallToolResult` (specification 2026-07-28) as decoded JSON.  What a model or a caller sent is never trusted: what
cannot be read becomes an invalid call with a reason that the model can act on, and the calls beside it stay valid.
`base` has what all formats share; `registry` has the formats by name.
"""
