# A demo host: sshd and one web server, as an admin's machines are. Build argument SERVER: nginx or apache.
FROM debian:bookworm-slim
ARG SERVER
COPY scripts/deps.sh /tmp/deps.sh
RUN /tmp/deps.sh host-$SERVER && rm -rf /var/lib/apt/lists/* /tmp/deps.sh && install -d -m 755 /run/sshd
COPY docker/host.sh /usr/local/sbin/host.sh
ENV SERVER=$SERVER
EXPOSE 22 80
CMD ["/usr/local/sbin/host.sh"]
