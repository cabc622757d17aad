#!/bin/sh
# Called by Patroni once, on the first primary, with a connection string: the role and the database of the shared log. A commit
# would wait for a standby that is not there yet, so these do not.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$LAPLACED_PASSWORD" "$1" <<'END'
SET synchronous_commit = local;
CREATE ROLE laplaced LOGIN IN ROLE pg_read_all_stats PASSWORD :'password';
CREATE DATABASE laplaced OWNER laplaced;
END
