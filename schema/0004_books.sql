-- A tenant's file, version 4: what is counted over the log beside the model (server/book/book.h).
--
-- A book is a fold of the log that is not part of the model, as it stood behind event `seq`. The log comes first: a book
-- that is missing, or that this program cannot read, is folded anew from the first line that the log still has.
CREATE TABLE books (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL, -- of the body
    seq INTEGER NOT NULL CHECK (seq >= 0),
    body BLOB NOT NULL
) STRICT;
