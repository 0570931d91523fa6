"""Server `file-io`: text files in one folder that calls cannot leave."""
