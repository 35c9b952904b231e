// Selecting alerts in the queue, and the two dialogs that act on what is selected.

const form = document.getElementById("work");
const boxes = () => [...document.querySelectorAll('#work input[name="chosen"][type="checkbox"]')];

/** Counts what is selected, lets one box select all, and makes dialogs of the panels. */
export function choose() {
  document.querySelectorAll("dialog[open]").forEach(makeDialog);
  if (!form || !boxes().length) return;
  document.querySelector(".acts .all").hidden = false;
  document.getElementById("all").addEventListener("change", (event) => {
    for (const box of boxes()) box.checked = event.target.checked;
    count();
  });
  form.addEventListener("change", count);
  opens("deciding", "decide");
  opens("noting", "note");
  count();
}

/** The alert that keys act on: selected where nothing else is. */
export function chooseAtLeast(row) {
  if (!boxes().some((box) => box.checked)) tick(row, true);
}

export function tick(row, checked) {
  const box = row?.querySelector('input[name="chosen"]');
  if (!box) return;
  box.checked = checked ?? !box.checked;
  count();
}

/** Open a dialog, if the page has it and something is selected. */
export function openDialog(id) {
  const dialog = document.getElementById(id);
  if (!dialog || (form && !boxes().some((box) => box.checked))) return;
  dialog.showModal();
  dialog.querySelector("input:not([type=hidden]), textarea, button")?.focus();
}

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
  const chosen = boxes().filter((box) => box.checked).length;
  const all = document.getElementById("all");
  all.checked = chosen === boxes().length;
  all.indeterminate = chosen > 0 && !all.checked;
  document.getElementById("selected").textContent = chosen ? `${chosen} selected` : "Select all";
  document.querySelector(".acts").classList.toggle("idle", !chosen);
  for (const button of document.querySelectorAll(".acts button")) button.disabled = !chosen;
}
