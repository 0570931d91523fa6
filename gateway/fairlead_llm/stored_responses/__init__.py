"""Responses that the gateway keeps: those that a later request continues, and those that clients read and delete."""
