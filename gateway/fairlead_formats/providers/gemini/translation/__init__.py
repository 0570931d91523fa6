"""Conversion between Gemini and the neutral form (`fairlead_formats.neutral`). Pure modules."""
