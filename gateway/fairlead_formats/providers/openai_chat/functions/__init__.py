"""Chat Completions with `functions` and `function_call`, the deprecated predecessors of `tools` and `tool_calls`."""
