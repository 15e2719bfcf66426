# A fresh Debian 12 machine of a company: systemd, git, make, python3 and the company's certificates, nothing else.
FROM debian:bookworm-slim
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ca-certificates dbus git iproute2 make procps python3 sudo systemd systemd-sysv \
 && rm -rf /var/lib/apt/lists/*
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
CMD ["/lib/systemd/systemd"]
