"""`fairlead openapi`: what becomes of an OpenAPI document's operations as tools."""
