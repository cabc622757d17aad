-- The log that several servers share: what they have in common beside it: keys and rates of tenants, and who does
-- what one of them does for all.
--
-- Its revision moves with every change of them, and when a tenant is deleted. Whoever changes keys has the row locked, so that what is
-- judged of all keys (the first one, the last admin's) is true when the change is committed.
CREATE TABLE laplaced.common (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL
);
INSERT INTO laplaced.common (id, revision) VALUES (1, 1);
-- As a server's own file has them (registry_0002.sql), but for when they were last used, which each server knows of itself.
CREATE TABLE laplaced.key (
    id TEXT PRIMARY KEY,
    tenant BIGINT, -- a deleted tenant's are gone, and are removed by and by; NULL: no tenant's, but the servers' own
    roles INTEGER NOT NULL,
    hash BYTEA NOT NULL,
    label TEXT,
    tenants TEXT, -- of a key that decides for several: their names, or the beginnings of some with a * behind
    created_at BIGINT NOT NULL,
    expires_at BIGINT
);
-- What an operator has set for a tenant; of each server.
CREATE TABLE laplaced.rate (
    tenant BIGINT PRIMARY KEY,
    rate DOUBLE PRECISION NOT NULL,
    burst DOUBLE PRECISION NOT NULL
);
-- Which server follows the challengers of a tenant, and what it has last told of them.
CREATE TABLE laplaced.holder (
    tenant BIGINT PRIMARY KEY,
    node TEXT NOT NULL,
    seen_at BIGINT NOT NULL, -- by the database's clock
    view TEXT -- JSON, as GET /tenants/{tenant}/challengers has it
);
