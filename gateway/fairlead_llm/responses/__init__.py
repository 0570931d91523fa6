"""OpenAI Responses: requests, answers, streams, and answers that are kept under their ids."""
