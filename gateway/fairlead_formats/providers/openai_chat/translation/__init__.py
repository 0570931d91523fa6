"""Conversion between OpenAI Chat Completions and the neutral form (`fairlead_formats.neutral`). Pure modules."""
