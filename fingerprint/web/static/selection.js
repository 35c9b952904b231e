// Selecting alerts in the queue, singly and in ranges, and the two dialogs that act on what is selected.
import { rows } from "./rows.js";
import { _, ngettext } from "./words.js";

const NAMED = 6; // alerts that a dialog lists
const form = document.getElementById("work");
const boxOf = (row) => row?.querySelector('input[name="selected"]');
const boxes = () => rows().map(boxOf).filter(Boolean);
export const selectedRows = () => rows().filter((row) => boxOf(row)?.checked);
let anchor = null; // the row where a range begins

/** Counts what is selected, lets one box select all, and makes dialogs of the panels. */
export function choose() {
  document.querySelectorAll("dialog[open]").forEach(makeDialog);
  if (!form || !boxes().length) return;
  restore();
  for (const label of document.querySelectorAll(".all")) label.hidden = false;
  document.getElementById("all")?.addEventListener("change", (event) => {
    for (const box of boxes()) box.checked = event.target.checked;
    count();
  });
  form.addEventListener("change", count);
  form.addEventListener("click", (event) => {
    if (event.target.matches('input[name="selected"]')) selectTo(event.target.closest("[data-alert]"), event);
  });
  form.addEventListener("mousedown", (event) => {
    if (event.shiftKey && event.target.closest("[data-alert]")) event.preventDefault(); // text is not selected
  });
  opens("deciding", "decide");
  opens("noting", "note");
  const clearing = document.getElementById("clearing");
  clearing.hidden = false;
  clearing.addEventListener("click", clear);
  count();
}

/** The alert that keys act on: selected where nothing else is. */
export function chooseAtLeast(row) {
  if (!selectedRows().length) tick(row, true);
}

export function tick(row, checked) {
  const box = boxOf(row);
  if (!box) return;
  box.checked = checked ?? !box.checked;
  anchor = row;
  count();
}

/** Select all rows from the last one that was selected up to this one, or clear them as that one is. */
export function extendTo(row) {
  setRange(row, (anchor && boxOf(anchor)?.checked) ?? true);
}

export function clear() {
  const some = selectedRows().length > 0;
  for (const box of boxes()) box.checked = false;
  anchor = null;
  if (some) count();
  return some;
}

/** Open a dialog, if the page has it and something is selected. */
export function openDialog(id) {
  const dialog = document.getElementById(id);
  if (!dialog || (form && !selectedRows().length)) return;
  name(dialog);
  dialog.showModal();
  dialog.querySelector("input:not([type=hidden]), textarea, button")?.focus();
}

/** A page that is loaded again for new alerts keeps the selection of those that are as they were. */
export function keepSelection() {
  sessionStorage.setItem("selected", JSON.stringify(selectedRows().map((row) => boxOf(row).value)));
}

function restore() {
  const kept = new Set(JSON.parse(sessionStorage.getItem("selected") ?? "[]"));
  sessionStorage.removeItem("selected");
  for (const box of boxes()) if (kept.has(box.value)) box.checked = true;
}

function selectTo(row, event) {
  if (event.shiftKey && anchor?.isConnected) setRange(row, boxOf(row).checked);
  anchor = row;
}

function setRange(row, checked) {
  const all = rows();
  const [from, to] = [all.indexOf(anchor?.isConnected ? anchor : row), all.indexOf(row)].sort((a, b) => a - b);
  for (const each of all.slice(from, to + 1)) if (boxOf(each)) boxOf(each).checked = checked;
  count();
}

/** Say in a dialog what it covers: how many, which, and whether one is grave. */
function name(dialog) {
  const list = dialog.querySelector("ul.covered");
  if (!list) return;
  const selected = selectedRows();
    dialog.querySelector("h2").textContent = dialog.id === "decide"
    ? ngettext("Decide on %(num)s alert", "Decide on %(num)s alerts", selected.length)
    : ngettext("Write a note on %(num)s alert", "Write a note on %(num)s alerts", selected.length);
  const lines = selected.slice(0, NAMED).map((row) => {
    const line = document.createElement("li");
    const severity = document.createElement("span");
    severity.className = `grade ${severityOf(row)}`;
    severity.textContent = [...row.querySelectorAll(".urgency > *")].map((each) => each.textContent).join(" ");
    const title = document.createElement("bdi");
    title.textContent = row.querySelector("a.go").textContent.trim();
    line.append(severity, " ", title);
    return line;
  });
  if (selected.length > NAMED) {
    const more = document.createElement("li");
    more.className = "note";
    more.textContent = ngettext("and %(num)s more", "and %(num)s more", selected.length - NAMED);
    lines.push(more);
  }
  list.replaceChildren(...lines);
  list.hidden = false;
  const grave = ["critical", "high"].map((word) => [selected.filter((row) => severityOf(row) === word).length, word]).filter(([many]) => many);
  const warning = dialog.querySelector("p.covered");
  if (!warning) return;
  warning.hidden = !grave.length || selected.length < 2;
  warning.textContent = _("Among them: %(alerts)s", { alerts: grave.map(([many, word]) => `${many} ${_(word)}`).join(", ") });
}

const severityOf = (row) => ["critical", "high", "medium", "low"].find((word) => row.classList.contains(word)) ?? "";

function opens(button, dialog) {
  const found = document.getElementById(button);
  found.hidden = false;
  found.addEventListener("click", () => openDialog(dialog));
}

function makeDialog(dialog) {
  dialog.close();
  const cancel = dialog.querySelector("[data-close]");
  if (!cancel) return;
  cancel.hidden = false;
  cancel.addEventListener("click", () => dialog.close());
}

function count() {
  const selected = selectedRows().length;
  const all = document.getElementById("all");
  if (all) {
    all.checked = selected > 0 && selected === boxes().length;
    all.indeterminate = selected > 0 && !all.checked;
  }
  document.getElementById("selected").textContent = selected ? ngettext("%(num)s selected", "%(num)s selected", selected) : "";
  document.querySelector(".acts").classList.toggle("idle", !selected);
  for (const button of document.querySelectorAll(".acts button")) button.disabled = !selected;
}
