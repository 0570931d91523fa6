"""Conversion between Converse and the neutral form (`fairlead_formats.neutral`). Pure modules."""
