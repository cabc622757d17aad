-- A tenant's file, version 9: whose copy it is (server/shared/shared_log.h).
--
-- Where several servers share a log, a tenant's file is this server's copy of it. The row moves in the transaction that
-- appends the lines of a batch. Without a row the file is the log itself.
CREATE TABLE copy_of (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    tenant INTEGER NOT NULL, -- its number in the shared log
    seq INTEGER NOT NULL CHECK (seq >= 0), -- the last line that is here
    hash BLOB NOT NULL CHECK (length(hash) = 16) -- of the chain, behind it
) STRICT;
