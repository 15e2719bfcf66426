ARG BASE
FROM ${BASE}
# In the place of the program that supervises a box and starts its Observer is one that waits for its end.
RUN useradd --uid 1000 --gid 0 --create-home --shell /bin/bash agent; \
    mkdir -p /opt/agentbox/bin; \
    printf '%s\n' '#!/bin/sh' 'trap "exit 0" TERM' 'sleep infinity &' 'wait' > /opt/agentbox/bin/python; \
    chmod 0755 /opt/agentbox/bin/python
