// On a telephone a timeline begins with a few rows, and a button shows more: a page of a hundred is thirty screens there.
import { ngettext } from "./words.js";

const SHOWN = 30; // rows at a time
const list = document.querySelector("ol.timeline");

function fold() {
  const rows = [...list.children].filter((row) => !row.matches(".day"));
  if (rows.length <= SHOWN) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "second more-rows";
  let shown = 0;
  const show = (upTo) => {
    let place = -1; // of the row that a day's heading stands above
    for (const row of list.children) {
      if (!row.matches(".day")) place += 1;
      row.hidden = (row.matches(".day") ? place + 1 : place) >= upTo;
    }
    shown = Math.min(upTo, rows.length);
    const left = rows.length - shown;
    button.textContent = ngettext("Show %(num)s more row", "Show %(num)s more rows", left);
    button.hidden = !left;
  };
  button.addEventListener("click", () => {
    const next = rows[shown];
    show(shown + SHOWN);
    next.querySelector("summary")?.focus();
  });
  show(SHOWN);
  list.after(button);
}

if (list && matchMedia("(max-width: 760px)").matches) fold();
