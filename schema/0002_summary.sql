-- A tenant's file, version 2: logs that begin with a summary. The columns are those of `events` (0001_tenant.sql).
--
-- The lines of a summary are written here, some at a time, under a generation that is not in force; one update of
-- `log_start` then puts them in the place of the events that they stand for. Rows of `events` before `kept`, and of other
-- generations, are no part of the log and wait to be deleted.
CREATE TABLE summary (
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0), -- without gaps, up to kept - 1
    at INTEGER NOT NULL,
    type INTEGER NOT NULL,
    decision TEXT,                        -- of an open decision, with its user, arm, reward so far and answer
    user TEXT,
    arm TEXT,
    reward REAL,
    reset INTEGER NOT NULL DEFAULT 0,
    text TEXT NOT NULL,
    answer TEXT,
    PRIMARY KEY (generation, seq)
) STRICT;
CREATE INDEX summary_decision ON summary (decision) WHERE decision IS NOT NULL;

CREATE TABLE log_start (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    kept INTEGER NOT NULL,      -- first row of `events` that belongs to the log
    generation INTEGER NOT NULL -- of the summary before it; 0: none
) STRICT;
INSERT INTO log_start (id, kept, generation) VALUES (1, 1, 0);

-- The log, in order by seq.
CREATE VIEW log AS
SELECT seq, at, type, decision, user, arm, reward, reset, text, answer FROM summary
    WHERE generation = (SELECT generation FROM log_start)
UNION ALL
SELECT seq, at, type, decision, user, arm, reward, reset, text, answer FROM events
    WHERE seq >= (SELECT kept FROM log_start);
