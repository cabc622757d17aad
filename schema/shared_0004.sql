-- The log that several servers share, version 4: logs that were compacted.
--
-- A log may begin behind line 1: with the lines of a summary (schema/0002_summary.sql), numbers first to kept - 1, whose
-- first batch is chained to a hash of zeros. A compaction is a rewriting and has a number like any other; `rewritten` is
-- the last one that was more than that, so that a server whose copy has it may keep its model.
ALTER TABLE laplaced.tenant ADD COLUMN first BIGINT NOT NULL DEFAULT 1; -- its first line
ALTER TABLE laplaced.tenant ADD COLUMN kept BIGINT NOT NULL DEFAULT 1; -- the first one behind the summary
ALTER TABLE laplaced.tenant ADD COLUMN rewritten BIGINT NOT NULL DEFAULT 0; -- as generation, of lines that read otherwise
UPDATE laplaced.tenant SET rewritten = generation;
-- What was counted over the lines that are gone (schema/0004_books.sql), as of the last compaction.
CREATE TABLE laplaced.book (
    tenant BIGINT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL, -- of the body
    seq BIGINT NOT NULL, -- the last line that it has counted
    body BYTEA NOT NULL,
    PRIMARY KEY (tenant, name)
);
