"""Converse to and from the form that no family has. Pure modules."""
