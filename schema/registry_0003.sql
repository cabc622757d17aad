-- The registry file, version 3: what an operator has set for a tenant. NULL: what the server's options say.
ALTER TABLE tenants ADD COLUMN rate REAL CHECK (rate >= 0); -- tokens a second (server/price.h), 0: no limit
ALTER TABLE tenants ADD COLUMN burst REAL CHECK (burst >= 0); -- tokens, 0: what comes in ten seconds
