"""OpenAPI documents as tools: how many operations are made, lost and left out; another project's beside ours."""
