"""OpenAPI documents as tools: numbers of converted, lost and skipped operations, compared with another project."""
