"""Server `file-io`: text files in one folder, which tool calls cannot leave."""
