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
# Not by the option destroy-unattached: with it and a session-closed hook tmux 3.3a crashes now and then.
view=view-$$
end() { box kill-session -t "=$view" 2> /dev/null; }
end # one of that name belonged to a process that is gone
trap end EXIT
trap 'exit 129' HUP
trap 'exit 143' TERM
box new-session -s "$view" -t '=agentbox' \; select-window -t ':=main'
