-- The log that several servers share (--log), version 1. `laplacectl cluster init` runs it once, in one transaction.
--
-- Plain tables: no extension, no trigger, no function. Times are Unix time in milliseconds.
CREATE SCHEMA laplaced;
CREATE TABLE laplaced.version (
    number INTEGER PRIMARY KEY
);
-- A tenant's row is locked by the server that has its turn, and moves with every batch.
CREATE TABLE laplaced.tenant (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used again
    name TEXT NOT NULL,
    last BIGINT NOT NULL DEFAULT 0, -- its last line; 0: none yet
    hash BYTEA NOT NULL DEFAULT '\x00000000000000000000000000000000', -- of the chain, behind that line
    created_at BIGINT NOT NULL,
    deleted_at BIGINT -- its batches go by and by; the row stays, so that copies know that it was deleted
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX tenant_name ON laplaced.tenant (name) WHERE deleted_at IS NULL;
-- A batch is what one commit wrote: lines as an export writes them, each with a line feed.
CREATE TABLE laplaced.batch (
    tenant BIGINT NOT NULL,
    seq BIGINT NOT NULL, -- the number of its last line
    n INTEGER NOT NULL, -- lines
    at BIGINT NOT NULL, -- of its last line
    node TEXT NOT NULL, -- who wrote it
    nonce BIGINT NOT NULL, -- drawn by who wrote it
    hash BYTEA NOT NULL, -- BLAKE2b-128 of the hash before it and the body
    body BYTEA NOT NULL,
    PRIMARY KEY (tenant, seq)
);
-- The servers. Writing here is also how a server proves that a standby has all that it can see.
CREATE TABLE laplaced.node (
    name TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    seen_at BIGINT NOT NULL -- by the database's clock
);
INSERT INTO laplaced.version (number) VALUES (1);
