#!/bin/bash
# First process of the box after the engine's init: what it starts lives as long as the box.
umask 022
exec /opt/agentbox/bin/python -m agentbox.box supervise
