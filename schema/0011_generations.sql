-- A tenant's file, version 11: which rewriting of the shared log a copy has (schema/shared_0002.sql).
ALTER TABLE copy_of ADD COLUMN generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0);
