"""Conversion between Anthropic Messages and the neutral form (`fairlead_formats.neutral`). Pure modules."""
