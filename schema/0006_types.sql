-- A tenant's file, version 6: lines of one type, newest first, however rare they are. Rows of one type are in order by seq
-- in this index, which also gives those of a window and the last configuration.
DROP INDEX events_at;
DROP INDEX events_configured;
CREATE INDEX events_type ON events (type);
