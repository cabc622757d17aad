-- The registry file, version 4: which tenants a key of the server itself decides for. NULL: it is none of these keys.
ALTER TABLE keys ADD COLUMN tenants TEXT -- names, and beginnings of names with a * behind them; commas between them
    CHECK (tenants IS NULL OR (tenant IS NULL AND roles = 1 AND length(tenants) BETWEEN 1 AND 527));
