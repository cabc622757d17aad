-- A tenant's file, version 8: evaluations, which outlive the process (docs/REPLAY.md). They are no part of the log.
--
-- One without an end was under way; where nobody works on it any more, the process that did has ended.
CREATE TABLE evaluations (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE CHECK (number > 0), -- in the order in which they were begun
    begun_ms INTEGER NOT NULL,
    by TEXT, -- the id of the key that asked; NULL: it has none
    request TEXT NOT NULL, -- JSON
    ended_ms INTEGER, -- NULL: it has not ended
    state TEXT CHECK (state IN ('done', 'failed', 'cancelled')),
    outcome TEXT, -- JSON: the result, or the problem
    CHECK ((ended_ms IS NULL) = (state IS NULL))
) STRICT;
