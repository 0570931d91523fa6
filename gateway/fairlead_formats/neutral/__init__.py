"""Requests, turns and answers in no family's form: each family reads and writes them. Pure modules."""
