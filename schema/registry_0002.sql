-- The registry file, version 2: keys, by id. What a key opens is not here, only its hash.
CREATE TABLE keys (
    id TEXT PRIMARY KEY CHECK (length(id) = 16),
    tenant TEXT, -- NULL: no tenant's, but the server's own
    roles INTEGER NOT NULL CHECK (roles BETWEEN 1 AND 31), -- bits of enum ld_role (server/roles.h)
    hash BLOB NOT NULL CHECK (length(hash) = 32), -- BLAKE2b-256 of the whole key
    label TEXT, -- for people
    created_at INTEGER NOT NULL, -- Unix time in milliseconds, here and below
    expires_at INTEGER,
    last_used_at INTEGER -- as of the last time that it was written down
) STRICT;
CREATE INDEX keys_by_tenant ON keys (tenant);
-- A name that is used again must not find the keys of the tenant that had it before.
CREATE TRIGGER a_tenant_takes_its_keys_along AFTER DELETE ON tenants
BEGIN
    DELETE FROM keys WHERE tenant = old.name;
END;
