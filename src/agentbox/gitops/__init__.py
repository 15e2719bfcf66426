"""The program of a host that converges itself from a Git repository; a systemd timer starts it.

Runs outside of boxes and, like the rest of the package, imports no Ansible: it calls git and ansible-pull.
"""
