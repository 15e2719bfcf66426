"""Documentation of what every module promises about check mode, diffs and repetition."""

from __future__ import annotations


class ModuleDocFragment:
    """C(agentbox.fleet.attributes): the meaning of the attributes; a module states its support of each."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and predict the outcome without changing the target.
  diff_mode:
    description: Returns what changed, or in C(check_mode) what would change, as a before and after.
  idempotent:
    description: Run again under the same conditions it changes nothing.
"""

    # For modules that only look.
    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: This module changes nothing.
  diff_mode:
    support: N/A
    details: This module changes nothing.
  idempotent:
    support: full
    details: This module changes nothing.
"""
