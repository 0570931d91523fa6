"""Realtime sessions whose text turns a model beside the speaking one may answer, by their tier."""
