"""Finds tools by what somebody wants to do."""
