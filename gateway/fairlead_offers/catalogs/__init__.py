"""Catalogs of the tools that one subject may see."""
