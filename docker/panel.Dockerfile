# The control plane: web, worker and beat run from this image with different commands (docker-compose.yml).
# Every step is one that `make run` takes too.
FROM rust:1-bookworm AS native
WORKDIR /src
COPY native native
RUN cd native && cargo build --release --locked

FROM debian:bookworm-slim
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3 python3-venv make curl fonts-dejavu-core libpcre2-8-0 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 paddock
WORKDIR /srv/paddock
COPY --chown=paddock . .
COPY --from=native /src/native/target/release/gallop /src/native/target/release/paddock-netem /src/native/target/release/gallop-load native/target/release/
RUN make .venv/run.stamp && install -d -o paddock -m 700 /var/lib/paddock
USER paddock
ENV PADDOCK_HOME=/var/lib/paddock PATH=/srv/paddock/.venv/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8000
CMD ["docker/entrypoint.sh", "web"]
