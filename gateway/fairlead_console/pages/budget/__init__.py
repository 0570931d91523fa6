"""Page that plans which tools fit into a model's context beside a conversation, and at which cost."""
