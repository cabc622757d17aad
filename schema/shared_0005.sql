-- The log that several servers share, version 5: servers of two versions beside one another.
--
-- Lines have a version, which moves when a new kind of them comes (server/shared/shared_log.h says which). The log allows one: whoever writes,
-- writes none that is newer, and whoever does not know it keeps away from the log. `laplacectl cluster upgrade` raises it.
ALTER TABLE laplaced.common ADD COLUMN log_version BIGINT NOT NULL DEFAULT 1; -- that may be written
ALTER TABLE laplaced.node ADD COLUMN log_version BIGINT NOT NULL DEFAULT 1; -- that the server knows
-- Programs of which version of these tables can use them as they are: a change that older programs need not know lets them go on.
ALTER TABLE laplaced.version ADD COLUMN serves BIGINT; -- that version and later ones; NULL: the number alone
INSERT INTO laplaced.version (number, serves) VALUES (5, 5);
