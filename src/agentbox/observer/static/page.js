// Keeps the page up to date. Everything that comes from the box is set as text, never as markup.
"use strict";

const KEEP = 300; // events in the page; older ones are in the API

const $ = (id) => document.getElementById(id);

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function paneView(pane) {
  const caption = element("figcaption", {}, element("code", { textContent: pane.id }), ` ${pane.command} `);
  if (pane.dead) {
    const how = pane.status === null ? "an unknown status" : pane.status;
    caption.append(element("strong", { textContent: `ended with ${how}` }), " ");
  }
  caption.append(element("span", { className: "title", textContent: pane.title }));
  const view = element("figure", { className: "pane" }, caption,
    element("pre", { tabIndex: 0, textContent: pane.lines.join("\n") }));
  view.dataset.dead = pane.dead ? "yes" : "no";
  return view;
}

function windowView(window) {
  return element("article", { className: "window" },
    element("h3", { textContent: window.name }), ...window.panes.map(paneView));
}

function eventView(event) {
  const head = element("summary", {},
    element("time", { dateTime: event.time, textContent: clock(event.time) }),
    element("b", { textContent: event.type }),
    element("span", { className: "summary", textContent: event.summary }));
  const item = element("li", { className: "event" },
    element("details", {}, head, element("pre", { tabIndex: 0, textContent: event.payload })));
  item.dataset.type = event.type;
  item.id = event.id;
  return item;
}

function showState(state) {
  const { lead, state: health, reasons } = state.health;
  $("lead").textContent = `${lead.agent ?? "a shell"}: ${lead.state}${lead.code === null ? "" : ` (${lead.code})`}`;
  $("lead").dataset.state = lead.state;
  $("health").textContent = health;
  $("health").dataset.state = health;
  $("login").hidden = !state.login;
  $("login-command").textContent = state.login ?? "";
  const messages = [...reasons, ...state.notes];
  $("reasons").hidden = messages.length === 0;
  $("reasons").replaceChildren(...messages.map((text) => element("li", { textContent: text })));
  showWindows(state.windows);
}

let shownWindows = "";

function showWindows(windows) {
  const text = JSON.stringify(windows);
  if (text === shownWindows) return; // what is selected stays selected
  shownWindows = text;
  const before = screens().map((pre) => (atEnd(pre) ? Infinity : pre.scrollTop));
  const views = windows.map(windowView);
  $("windows").replaceChildren(...(views.length ? views
    : [element("p", { className: "empty", textContent: "There is no terminal session." })]));
  screens().forEach((pre, i) => scroll(pre, before[i] ?? Infinity));
}

const screens = () => [...document.querySelectorAll(".pane pre")];
const atEnd = (pre) => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
const scroll = (pre, top) => { pre.scrollTop = Math.min(top, pre.scrollHeight); };

function addEvent(event) {
  if ($(event.id)) return; // a stream that was interrupted sends the latest again
  $("no-events").hidden = true;
  $("events").prepend(eventView(event));
  while ($("events").children.length > KEEP) $("events").lastChild.remove();
}

function live(on) {
  $("live").textContent = on ? "live" : "not live";
  $("live").dataset.state = on ? "on" : "off";
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hourCycle: "h23" }); // the reader's time zone

document.querySelectorAll("#events time").forEach((time) => { time.textContent = clock(time.dateTime); });
screens().forEach((pre) => scroll(pre, Infinity));

const stream = new EventSource(`/api/stream?after=${encodeURIComponent(document.body.dataset.lastId)}`);
stream.addEventListener("open", () => live(true));
stream.addEventListener("error", () => live(false));
stream.addEventListener("state", (message) => showState(JSON.parse(message.data)));
stream.addEventListener("event", (message) => addEvent(JSON.parse(message.data)));
