"""Planning of offers: decides which tools a model is offered in addition to the caller's, and in which format."""
