"""Amazon Bedrock Converse: tools, messages, requests, answers, streams, errors, and a fake. Pure modules."""
