"""A plan of what fits a model beside a conversation, and its cost."""
