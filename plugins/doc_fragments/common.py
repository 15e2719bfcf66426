"""Documentation of options that several modules have: which instance, where its state lies, how long, who is told."""

from __future__ import annotations


class ModuleDocFragment:
    """C(agentbox.fleet.common.<option>), one part per option."""

    INSTANCE = r"""
options:
  instance:
    description: Name of the instance, from which the names of containers, volumes, networks and images derive.
    type: str
    default: agentbox
"""

    STATE_ROOT = r"""
options:
  state_root:
    description: Directory of the state of all instances; by default C(/var/lib/agentbox) or the XDG state directory.
    type: path
"""

    LOCK_TIMEOUT = r"""
options:
  lock_timeout:
    description: Seconds to wait for another run on the same instance.
    type: int
    default: 120
"""

    PROGRESS = r"""
options:
  progress:
    description: File that gets one line per step, C(<unix time> <text>).
    type: path
"""
