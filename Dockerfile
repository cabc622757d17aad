# laplaced and its client, in two stages: the first builds, the second holds the programs and the
# shared libraries that they need.
#
#   docker build -t laplaced .
#   docker run -p 127.0.0.1:8080:8080 -v laplaced:/data -v "$PWD/admin-keys:/run/secrets/laplaced-admin-keys:ro" laplaced
#
# In the container the server listens on all addresses, so it wants keys (see deploy/compose.yaml). To try it without,
# give it the host's loopback: --network host -e LAPLACED_LISTEN=127.0.0.1:8080 -e LAPLACED_ADMIN_KEY_FILE=
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc g++ libc6-dev make libmicrohttpd-dev libjansson-dev libopenblas-dev \
    liblapacke-dev liblbfgs-dev libsqlite3-dev libuv1-dev libsodium-dev libgnutls28-dev libpq-dev libcurl4-openssl-dev zlib1g-dev libzstd-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile openapi.yaml openapi-3.0.yaml ./
COPY core core
COPY server server
COPY schema schema
COPY tools tools
COPY docs/ERRORS.md docs/
RUN make -j"$(nproc)" programs \
 && install -D -s -t /out build/release/laplaced build/release/laplacectl

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libmicrohttpd12 libjansson4 libopenblas0-pthread liblapacke liblbfgs0 \
    libsqlite3-0 libuv1 libsodium23 libgnutls30 libpq5 libcurl4 zlib1g libzstd1 libstdc++6 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
 && groupadd --gid 10001 laplaced \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin laplaced \
 && install -d -o laplaced -g laplaced -m 0750 /data
COPY --from=build /out/ /usr/local/bin/
ENV LAPLACED_DATA=/data \
    LAPLACED_LISTEN=0.0.0.0:8080 \
    LAPLACED_ADMIN_KEY_FILE=/run/secrets/laplaced-admin-keys
USER laplaced
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["laplacectl", "--timeout", "2", "ready"]
ENTRYPOINT ["laplaced"]
