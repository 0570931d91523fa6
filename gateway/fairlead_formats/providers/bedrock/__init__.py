"""Amazon Bedrock Converse: tools and messages. Pure modules."""
