"""Users' grants for servers: sealing, storage, and deletion."""
