"""Conversion between OpenAI Responses and the neutral form (`fairlead_formats.neutral`). Pure modules."""
