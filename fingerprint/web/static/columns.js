// Columns of the queue's table are made wider and narrower, with the mouse or the arrow keys; the browser keeps the widths.
import { _ } from "./words.js";

const SMALLEST = 48, LARGEST = 900, STEP = 16; // pixels
const table = document.querySelector("table.queue.interactive");
const kept = () => JSON.parse(localStorage.getItem("widths") ?? "{}");
const columnOf = (name) => table.querySelector(`col[data-column="${CSS.escape(name)}"]`);

export function resizeColumns() {
  if (!table) return;
  const widths = kept();
  for (const heading of table.querySelectorAll("th[data-column]")) {
    const { column } = heading.dataset;
    if (column === "title") continue; // it has what the others leave
    if (Number.isFinite(widths[column])) set(column, widths[column]);
    heading.append(grip(heading, column));
  }
  const reset = document.getElementById("widths");
  if (!reset) return;
  reset.hidden = false;
  reset.addEventListener("click", () => {
    localStorage.removeItem("widths");
    for (const each of table.querySelectorAll("col[data-column]")) each.style.width = "";
  });
}

function grip(heading, column) {
  const made = document.createElement("span");
  made.className = "grip";
  made.tabIndex = 0;
  made.setAttribute("role", "separator");
  made.setAttribute("aria-orientation", "vertical");
  made.setAttribute("aria-label", _("Width of %(column)s", { column: heading.textContent.trim() }));
  made.setAttribute("aria-valuemin", SMALLEST);
  made.setAttribute("aria-valuemax", LARGEST);
  const measure = () => Math.round(heading.getBoundingClientRect().width);
  made.setAttribute("aria-valuenow", measure());
  const change = (width) => made.setAttribute("aria-valuenow", set(column, width));
  made.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    change(measure() + by);
    keep(column, measure());
  });
  made.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const [start, width] = [event.clientX, measure()];
    const move = (moved) => change(width + moved.clientX - start);
    made.setPointerCapture(event.pointerId);
    made.addEventListener("pointermove", move);
    made.addEventListener("pointerup", () => {
      made.removeEventListener("pointermove", move);
      keep(column, measure());
    }, { once: true });
  });
  return made;
}

function set(column, width) {
  const fitting = Math.min(LARGEST, Math.max(SMALLEST, Math.round(width)));
  const found = columnOf(column);
  if (found) found.style.width = `${fitting}px`;
  return fitting;
}

function keep(column, width) {
  localStorage.setItem("widths", JSON.stringify({ ...kept(), [column]: width }));
}
