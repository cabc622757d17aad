-- The registry file, version 1: which tenants there are. migrate.c sets application_id and user_version.
CREATE TABLE tenants (
    name TEXT PRIMARY KEY, -- [A-Za-z0-9][A-Za-z0-9._-]{0,63}
    created_at INTEGER NOT NULL -- Unix time in milliseconds
) STRICT;
