"""Conversion of definitions and messages to formats of providers, and their token counts."""
