"""Model API endpoints of the gateway, which add tools to requests and run the model's calls of these tools."""
