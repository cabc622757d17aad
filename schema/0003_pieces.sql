-- A tenant's file, version 3: lines that are too long for one commit.
--
-- Their text is written here in pieces, each in a short transaction of its own beside the traffic, under a number that
-- no event has yet. The event that is committed later has that number in `line`, and its text is the pieces in order;
-- its own `text` is empty. Pieces of a number that no event has are no part of the log and wait to be deleted.
CREATE TABLE pieces (
    line INTEGER NOT NULL,
    n INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (line, n)
) STRICT;
ALTER TABLE events ADD COLUMN line INTEGER;
CREATE INDEX events_line ON events (line) WHERE line IS NOT NULL;

-- The log, in order by seq. Who reads `text` looks at `line` first.
DROP VIEW log;
CREATE VIEW log AS
SELECT seq, at, type, decision, user, arm, reward, reset, text, answer, NULL AS line FROM summary
    WHERE generation = (SELECT generation FROM log_start)
UNION ALL
SELECT seq, at, type, decision, user, arm, reward, reset, text, answer, line FROM events
    WHERE seq >= (SELECT kept FROM log_start);
