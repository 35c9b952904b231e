// Single keys: j and k go from alert to alert, the others act on the one that is focused or on those that are selected.
import { chooseAtLeast, openDialog, tick } from "./selection.js";

const PLACES = { q: "/", i: "/incidents", o: "/overview", s: "/suppressions", t: "/thresholds", b: "/banks", a: "/audit" };
const WAIT = 1500; // milliseconds that a `g` waits for its second key
const rows = () => [...document.querySelectorAll(".queue.interactive > li")];
let current = null;
let went = 0; // when `g` was pressed

export function listenForKeys() {
  const on = document.getElementById("keys-on");
  if (on) {
    on.checked = localStorage.getItem("keys") !== "off";
    on.addEventListener("change", () => localStorage.setItem("keys", on.checked ? "on" : "off"));
  }
  document.addEventListener("keydown", pressed);
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.(".queue.interactive > li");
    if (row) mark(row);
  });
  keepPlace();
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (event.key === "Enter" && event.target.matches?.("input[name=why]")) return toButtons(event);
  if (event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]")) {
    if (event.key === "Escape" && !document.querySelector("dialog:modal")) event.target.blur();
    return;
  }
  const button = numbered(event);
  if (button) return act(event, () => button.click());
  if (document.querySelector("dialog:modal")) return;
  if (localStorage.getItem("keys") === "off" && event.key !== "?") return;
  if (went && Date.now() - went < WAIT && PLACES[event.key]) return act(event, () => location.assign(PLACES[event.key]));
  went = 0;
  const action = ACTIONS[event.key];
  if (action) act(event, action);
}

/** From the reason on to the decisions; there 1 to 4 are their keys. */
function toButtons(event) {
  act(event, () => event.target.closest("dialog, form").querySelector(".buttons").focus());
}

/** The decision that a digit stands for: in an open dialog, or while the decisions have the focus. */
function numbered(event) {
  const place = document.querySelector("dialog:modal") ?? event.target.closest?.(".buttons")?.closest("form");
  return place?.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
}

function act(event, action) {
  event.preventDefault();
  action();
}

const ACTIONS = {
  j: () => step(1),
  k: () => step(-1),
  x: () => tick(current),
  e: () => decide(),
  a: () => press("take"),
  c: () => note(),
  u: () => document.querySelector(".outcome form button")?.click(),
  g: () => (went = Date.now()),
  "/": () => (document.getElementById("search") ?? { focus: () => location.assign("/#search") }).focus(),
  "?": () => document.getElementById("help")?.showModal(),
};

/** To the next or the previous row of a queue; on an alert's page to its neighbour in the queue. */
function step(by) {
  const all = rows();
  if (!all.length) return document.querySelector(`a[rel=${by > 0 ? "next" : "prev"}]`)?.click();
  const at = all.indexOf(current);
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  next.querySelector("a.go").focus();
}

function mark(row) {
  current?.classList.remove("current");
  current = row;
  row.classList.add("current");
}

function decide() {
  chooseHere();
  openDialog("decide");
  document.getElementById("page-why")?.focus();
}

function note() {
  chooseHere();
  openDialog("note");
  document.getElementById("page-note")?.focus();
}

function press(id) {
  chooseHere();
  document.getElementById(id)?.click();
}

/** In a queue the row that keys stand on is acted on, or the first, unless others are selected. */
function chooseHere() {
  if (!current && rows().length) step(1);
  if (current) chooseAtLeast(current);
}

/** After a change the page is another one: keys go on where they stood. */
function keepPlace() {
  document.getElementById("work")?.addEventListener("submit", () => {
    if (current) sessionStorage.setItem("row", rows().indexOf(current));
  });
  const kept = sessionStorage.getItem("row");
  sessionStorage.removeItem("row");
  if (kept !== null && rows().length) rows()[Math.min(Number(kept), rows().length - 1)].querySelector("a.go").focus();
}
