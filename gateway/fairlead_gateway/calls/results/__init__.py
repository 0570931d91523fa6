"""Processing of results before they are sent to clients: schema checks, cache, storage and shortening."""
