// Single keys: j and k go from alert to alert, the others act on the one that is focused or on those that are selected.
import { closePreview, togglePreview } from "./preview.js";
import { currentRow, fewerStops, focusRow, mark, rows } from "./rows.js";
import { chooseAtLeast, clear, extendTo, openDialog, tick } from "./selection.js";
import { closeToast } from "./toast.js";

const PLACES = {
  q: "/", i: "/incidents", o: "/overview", s: "/suppressions", t: "/thresholds", b: "/banks", a: "/audit", h: "/help",
};
const WAIT = 1500; // milliseconds that a `g` waits for its second key
let went = 0; // when `g` was pressed

export function listenForKeys() {
  const on = document.getElementById("keys-on");
  if (on) {
    on.checked = localStorage.getItem("keys") !== "off";
    on.addEventListener("change", () => localStorage.setItem("keys", on.checked ? "on" : "off"));
  }
  document.addEventListener("keydown", pressed);
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.(".queue.interactive [data-alert]");
    if (row) mark(row);
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest?.(".queue.interactive [data-alert]");
    if (row && !event.target.closest("a, button, input, label")) focusRow(row);
    if (event.target.closest?.("[data-help]") && help()) event.preventDefault();
  });
  fewerStops();
  keepPlace();
}

function pressed(event) {
  if (event.key === "Enter" && event.ctrlKey && event.target.matches?.("textarea[name=note]")) return sendNote(event);
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
  if (event.key === "Enter" && event.target.matches?.("input[name=why]")) return toButtons(event);
  if (event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]")) {
    if (event.key === "Escape" && !document.querySelector("dialog:modal")) event.target.blur();
    return;
  }
  const button = numbered(event);
  if (button) return act(event, () => button.click());
  if (document.querySelector("dialog:modal")) return;
  if (localStorage.getItem("keys") === "off" && event.key !== "?") return;
  if (event.key === " " && !standsOnRow(event.target)) return; // it presses a button, opens a fold, scrolls
  if (went && Date.now() - went < WAIT && PLACES[event.key]) return act(event, () => location.assign(PLACES[event.key]));
  went = 0;
  const action = ACTIONS[event.key];
  if (action && !(event.key.startsWith("Arrow") && !standsOnRow(event.target))) act(event, action);
}

const standsOnRow = (target) => Boolean(target.matches?.(".queue.interactive [data-alert] a.go"));

/** From the reason on to the decisions; there 1 to 4 are their keys. */
function toButtons(event) {
  act(event, () => event.target.closest("dialog, form").querySelector(".buttons").focus());
}

function sendNote(event) {
  act(event, () => event.target.form.querySelector("button[value=note]").click());
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
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  J: () => extend(1),
  K: () => extend(-1),
  x: () => tick(currentRow()),
  o: () => togglePreview(),
  " ": () => togglePreview(),
  e: () => decide(),
  a: () => press("take"),
  c: () => note(),
  n: () => document.getElementById("onward")?.click(),
  u: () => document.querySelector(".outcome form button")?.click(),
  g: () => (went = Date.now()),
  "/": () => search(),
  "?": () => help(),
  Escape: () => closePreview() || clear() || closeToast(),
};

/** To the next or the previous row of a queue; on an alert's page to its neighbour in the queue. */
function step(by) {
  const all = rows();
  if (!all.length) return document.querySelector(`a[rel=${by > 0 ? "next" : "prev"}]`)?.click();
  const at = all.indexOf(currentRow());
  focusRow(all[Math.min(Math.max(at + by, 0), all.length - 1)]);
}

function extend(by) {
  const from = currentRow();
  if (from && !from.querySelector('input[name="selected"]')?.checked) tick(from, true);
  step(by);
  if (currentRow()) extendTo(currentRow());
}

function search() {
  const field = document.getElementById("search");
  if (!field) return location.assign("/#search");
  const fold = field.closest("details");
  if (fold) fold.open = true;
  field.focus();
}

function help() {
  const dialog = document.getElementById("help");
  dialog?.showModal();
  return Boolean(dialog);
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
  if (!currentRow() && rows().length) step(1);
  if (currentRow()) chooseAtLeast(currentRow());
}

/** After a change, or back from an alert's page, keys go on where they stood, or at the row that came after it. */
function keepPlace() {
  const own = document.querySelector("#live[data-alert]")?.dataset.alert;
  const next = document.querySelector("a[rel=next]")?.pathname.split("/")[2];
  if (own && !rows().length) return sessionStorage.setItem("place", JSON.stringify([own, next && decodeURIComponent(next)]));
  document.getElementById("work")?.addEventListener("submit", () => {
    const all = rows(), at = all.indexOf(currentRow());
    if (at >= 0) remember([...all.slice(at), ...all.slice(0, at).reverse()]);
  });
  const kept = JSON.parse(sessionStorage.getItem("place") ?? "[]");
  sessionStorage.removeItem("place");
  const found = kept.map((id) => rows().find((row) => row.dataset.alert === id)).find(Boolean);
  if (found && !document.querySelector("dialog:modal, [data-refused]")) focusRow(found);
}

function remember(list) {
  sessionStorage.setItem("place", JSON.stringify(list.map((row) => row.dataset.alert)));
}
