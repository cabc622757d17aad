#!/bin/sh
# Starts Patroni as the node NODE at the address ADDRESS (both default to the container's name), with etcd at ETCD, its folder DATA and
# the passwords of three files in SECRETS. `start.sh etcd` starts etcd in its place.
set -eu
NODE=${NODE:-$(hostname)} DATA=${DATA:-/data} SECRETS=${SECRETS:-/run/secrets} ADDRESS=${ADDRESS:-$(hostname)}
if [ "${1:-}" = etcd ]; then
    exec etcd --name "$NODE" --data-dir "$DATA" --listen-client-urls "http://0.0.0.0:2379" --advertise-client-urls "http://$ADDRESS:2379"
fi
password() { head -n 1 "$SECRETS/$1"; }
PATRONI_NAME=$NODE PATRONI_ETCD3_HOSTS=${ETCD:-etcd:2379} PATRONI_POSTGRESQL_DATA_DIR=$DATA/pg
PATRONI_POSTGRESQL_LISTEN=${PG_LISTEN:-0.0.0.0:5432}
PATRONI_POSTGRESQL_CONNECT_ADDRESS=$ADDRESS:${PATRONI_POSTGRESQL_LISTEN##*:}
PATRONI_RESTAPI_LISTEN=${API_LISTEN:-0.0.0.0:8008}
PATRONI_RESTAPI_CONNECT_ADDRESS=$ADDRESS:${PATRONI_RESTAPI_LISTEN##*:}
PATRONI_SUPERUSER_PASSWORD=$(password postgres-password) PATRONI_REWIND_PASSWORD=$(password postgres-password)
PATRONI_REPLICATION_PASSWORD=$(password replicator-password) LAPLACED_PASSWORD=$(password laplaced-password)
export PATRONI_NAME PATRONI_ETCD3_HOSTS PATRONI_POSTGRESQL_DATA_DIR PATRONI_POSTGRESQL_LISTEN PATRONI_POSTGRESQL_CONNECT_ADDRESS PATRONI_RESTAPI_LISTEN \
    PATRONI_RESTAPI_CONNECT_ADDRESS PATRONI_SUPERUSER_PASSWORD PATRONI_REWIND_PASSWORD PATRONI_REPLICATION_PASSWORD LAPLACED_PASSWORD
exec patroni "${CONFIG:-/etc/laplaced-log/patroni.yml}"
