# A developer's fresh machine: what the tests' servers have, and what somebody needs to get and start this project.
ARG BASE
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends git make sudo \
 && rm -rf /var/lib/apt/lists/*
