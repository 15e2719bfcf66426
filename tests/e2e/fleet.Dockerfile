# A server that has its engine already, as most of a fleet do; that role docker brings one is proven elsewhere.
ARG BASE
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      acl docker.io iptables python3-docker tmux \
 && rm -rf /var/lib/apt/lists/*
RUN mkdir /srv/code /srv/review /srv/night
