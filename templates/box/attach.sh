#!/bin/bash
# A view of the box's terminal: a session of its own that shares the windows and ends with the view.
set -u

# A terminal this box does not know, or no name for a terminal at all.
case ${TERM:-} in
  '' | *[!A-Za-z0-9._+-]*) TERM=xterm-256color ;;
esac
infocmp -- "$TERM" > /dev/null 2>&1 || TERM=xterm-256color
export TERM

box() { tmux -u -L agentbox "$@"; }

# A box that has just been started needs a moment.
for _ in {1..100}; do
  box has-session -t '=agentbox' 2> /dev/null && break
  sleep 0.1
done
if ! box has-session -t '=agentbox' 2> /dev/null; then
  echo "agentbox: there is no session; 'agentbox doctor' says why" >&2
  exit 1
fi

# Not a client of the session itself: each view has its own current window, and detaching removes only the view.
exec tmux -u -L agentbox new-session -s "view-$$" -t '=agentbox' \; \
  set-option destroy-unattached on \; select-window -t ':=main'
