// The rows of the queue, whether a table or cards: which one the keys stand on, and where they go.

export const rows = () => [...document.querySelectorAll(".queue.interactive [data-alert]")];
let current = null;

export const currentRow = () => (current?.isConnected ? current : null);

/** Make a row the one that keys act on. Only its own links are stops of the Tab key, beside each row's box and title. */
export function mark(row) {
  if (row === current) return;
  if (current) { current.classList.remove("current"); stops(current, false); }
  current = row;
  row.classList.add("current");
  stops(row, true);
  row.dispatchEvent(new CustomEvent("row", { bubbles: true }));
}

export function focusRow(row) {
  row?.querySelector("a.go").focus();
}

/** In a table with many rows, each with many links, Tab would never come to an end. */
export function fewerStops() {
  for (const row of document.querySelectorAll("table.queue.interactive [data-alert]")) stops(row, false);
}

function stops(row, all) {
  if (!row.matches("tr")) return;
  for (const each of row.querySelectorAll("a:not(.go), td button")) {
    if (all) each.removeAttribute("tabindex");
    else each.tabIndex = -1;
  }
}
