-- A tenant's file, version 1: the ordered log of events. migrate.c sets application_id and user_version.
--
-- `text` is the event's JSON line (event.schema.json) and the truth; the columns before it are what queries
-- need, so that no query has to parse the lines of a long log. `answer` is the /select answer, kept when the
-- caller named the decision.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY CHECK (seq > 0), -- 1, 2, 3, ... without gaps
    at INTEGER NOT NULL,                     -- Unix time in milliseconds
    type INTEGER NOT NULL,                   -- enum kb_event_type: 1 configured, 4 decided, 5 rewarded, ...
    decision TEXT,
    user TEXT,
    arm TEXT,                                -- decided: slot 0; rewarded: the slot named, NULL = slot 0
    reward REAL,
    reset INTEGER NOT NULL DEFAULT 0,        -- 1: a dictionary event that builds the representation anew
    text TEXT NOT NULL,
    answer TEXT
) STRICT;

-- Partial indexes: a row pays only for those that it can be found by. Their conditions are written as OR, not
-- IN, because SQLite then sees that `type = 5` implies them.
CREATE INDEX events_decision ON events (decision) WHERE decision IS NOT NULL;
CREATE INDEX events_at ON events (at) WHERE type = 4 OR type = 5;
CREATE INDEX events_configured ON events (seq) WHERE type = 1;
CREATE INDEX events_reset ON events (seq) WHERE reset = 1;
