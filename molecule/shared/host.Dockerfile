# A fresh server: systemd, a Python for Ansible, a way in, and the certificates that its network needs.
ARG BASE
FROM ${BASE}
# Nothing here has to survive a power cut.
RUN echo force-unsafe-io > /etc/dpkg/dpkg.cfg.d/throwaway
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      ca-certificates dbus iproute2 openssh-server procps python3 systemd systemd-sysv \
 && systemctl enable ssh.service \
 && rm -rf /var/lib/apt/lists/*
# The kernel's settings are read-only in a container, and newer engines insist on turning IPv6 off there.
RUN mkdir --parents /etc/systemd/system/docker.service.d \
 && printf '[Service]\nEnvironment=DOCKER_ALLOW_IPV6_ON_IPV4_INTERFACE=1\n' \
      > /etc/systemd/system/docker.service.d/throwaway.conf
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
CMD ["/lib/systemd/systemd"]
