// The result of a change, where the eye is: a box that stays in view until it is closed, with Undo.
import { _ } from "./words.js";

export function showToast() {
  const toast = document.querySelector(".outcome");
  if (!toast?.firstElementChild) return;
  toast.classList.add("floating");
  const close = document.createElement("button");
  close.type = "button";
  close.className = "plain dismiss";
  close.setAttribute("aria-label", _("Dismiss"));
  close.textContent = "×";
  close.addEventListener("click", () => closeToast());
  toast.append(close);
  reopen(toast.querySelector("[data-refused]")?.dataset.refused);
  if (document.activeElement === document.body) focus(toast);
}

/** The page is a new one: without a row to stand on, who reads by ear hears the result, and the next Tab is Undo. */
function focus(toast) {
  toast.tabIndex = -1;
  toast.focus({ preventScroll: true });
}

/** Close it; false where there is none. */
export function closeToast() {
  const toast = document.querySelector(".outcome.floating");
  toast?.remove();
  return Boolean(toast);
}

/** A form that was refused is open again, with what it had. */
function reopen(field) {
  const decided = { why: "why", duplicate_of: "of" }[field]; // of the form of a decision
  if (decided) {
    const panel = document.getElementById("decide");
    if (panel) document.getElementById("deciding")?.click();
    document.getElementById(`${panel ? "decide" : "page"}-${decided}`)?.focus();
  } else if (field === "to") document.getElementById("assign-to")?.focus();
}
