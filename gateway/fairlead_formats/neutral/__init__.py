"""Requests, turns and answers in a neutral form, which each family can read and write. Pure modules."""
