-- The log that several servers share, version 2: lines that were rewritten (a user was erased). See shared_0001.sql.
--
-- Each rewriting has a number of its own, over all tenants, which becomes the tenant's generation; the chain of hashes is
-- written anew from the first batch that changes to the tip. A copy that has an older generation is renewed before it
-- is read on.
CREATE TABLE laplaced.generation (
    only_one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_one),
    number BIGINT NOT NULL -- of the last rewriting
);
INSERT INTO laplaced.generation (number) VALUES (0);
ALTER TABLE laplaced.tenant ADD COLUMN generation BIGINT NOT NULL DEFAULT 0; -- the last rewriting of its lines; 0: none
ALTER TABLE laplaced.node ADD COLUMN generation BIGINT NOT NULL DEFAULT 0; -- no copy there lacks this rewriting, or one before
INSERT INTO laplaced.version (number) VALUES (2);
