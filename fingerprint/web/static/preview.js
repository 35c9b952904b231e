// The preview beside the list: the middle of an alert's preview page, for the row that the keys stand on.
import { currentRow, focusRow, mark, rows } from "./rows.js";
import { showTimes } from "./times.js";
import { _ } from "./words.js";

const DELAY = 120; // milliseconds that j may be held before a page is fetched
const pane = document.getElementById("preview");
const wide = matchMedia("(min-width: 1000px)");
let shown = null; // the address that is in the pane
let waiting = 0;

export function previewBeside() {
  if (!pane) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a.peek");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !wide.matches) return;
    event.preventDefault();
    const row = link.closest("[data-alert]");
    const again = isOpen() && shown === link.href;
    mark(row);
    if (again) closePreview();
    else open(row);
  });
  document.addEventListener("row", ({ target }) => {
    if (!isOpen()) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => open(target), DELAY);
  });
  wide.addEventListener("change", () => wide.matches || closePreview());
  if (sessionStorage.getItem("preview") === "open" && wide.matches && rows().length) open(currentRow() ?? rows()[0]);
}

export const isOpen = () => Boolean(pane) && !pane.hidden;

/** Open the preview of the current row, or close it; on a small screen go to its page. */
export function togglePreview() {
  const row = currentRow() ?? rows()[0];
  const link = row?.querySelector("a.peek");
  if (!link) return;
  if (!wide.matches) return location.assign(link.href);
  if (isOpen()) return closePreview();
  mark(row);
  open(row);
}

/** Close it; false where it is closed. */
export function closePreview() {
  if (!isOpen()) return false;
  const inside = pane.contains(document.activeElement);
  pane.hidden = true;
  shown = null;
  document.querySelector(".board").classList.remove("previewing");
  sessionStorage.removeItem("preview");
  if (inside) focusRow(currentRow());
  return true;
}

async function open(row) {
  const { href } = row.querySelector("a.peek");
  shown = href;
  pane.hidden = false;
  document.querySelector(".board").classList.add("previewing");
  sessionStorage.setItem("preview", "open");
  pane.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(href, { credentials: "same-origin" });
    if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (shown !== href) return; // another row was faster
    const content = document.importNode(page.getElementById("preview-content"), true);
    lowerHeading(content);
    pane.replaceChildren(closeButton(), content);
    pane.scrollTop = 0;
    showTimes(pane);
  } catch {
    if (shown === href) pane.replaceChildren(closeButton(), sentence(_("The preview could not be fetched: open the alert.")));
  } finally {
    pane.removeAttribute("aria-busy");
  }
}

/** The page has a heading of the first level already. */
function lowerHeading(content) {
  for (const [from, to] of [["h2", "h3"], ["h1", "h2"]]) {
    for (const each of content.querySelectorAll(from)) {
      const lower = document.createElement(to);
      lower.append(...each.childNodes);
      each.replaceWith(lower);
    }
  }
}

function closeButton() {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain dismiss";
  button.setAttribute("aria-label", _("Close the preview"));
  button.textContent = "×";
  button.addEventListener("click", closePreview);
  return button;
}

function sentence(text) {
  const made = document.createElement("p");
  made.textContent = text;
  return made;
}
