// The reason of a decision: templates at a key or a click, and none forgotten where one is required, nor a duplicate's original.
import { _ } from "./words.js";

const REQUIRED = ["benign", "false_positive"];

export function requireReasons() {
  for (const field of document.querySelectorAll("input[data-reason]")) {
    offer(field);
    demand(field, field.id.replace("-why", "-lacking"), REQUIRED);
    const original = document.getElementById(field.id.replace("-why", "-of"));
    if (original) demand(original, `${original.id}-lacking`, ["duplicate"]);
  }
  const onward = document.getElementById("onward");
  if (!onward) return;
  onward.checked = localStorage.getItem("onward") !== "off";
  onward.addEventListener("change", () => localStorage.setItem("onward", onward.checked ? "on" : "off"));
}

/** The field may not be empty for these decisions: a sentence says so in place of sending the form. */
function demand(field, sentenceId, decisions) {
  const sentence = document.getElementById(sentenceId);
  field.form.addEventListener("submit", (event) => {
    const lacking = decisions.includes(event.submitter?.value) && !field.value.trim();
    tell(field, sentence, lacking);
    if (!lacking) return;
    event.preventDefault();
    field.focus();
  });
  field.addEventListener("input", () => tell(field, sentence, false));
}

function tell(field, sentence, lacking) {
  sentence.hidden = !lacking;
  if (lacking) {
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", sentence.id);
  } else field.removeAttribute("aria-invalid");
}

/** Buttons in place of the browser's list, which hides the templates; the arrow keys go through them. */
function offer(field) {
  const list = document.getElementById(field.getAttribute("list"));
  const reasons = [...list.options].map((option) => option.value);
  field.removeAttribute("list");
  const shown = document.createElement("div");
  shown.className = "chips templates";
  shown.setAttribute("role", "group");
  shown.setAttribute("aria-label", _("Reasons"));
  for (const reason of reasons) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.tabIndex = -1; // the arrow keys in the field do the same
    button.textContent = reason;
    button.addEventListener("click", () => write(field, reason));
    shown.append(button);
  }
  const hint = document.createElement("kbd");
  hint.textContent = "↓";
  hint.setAttribute("aria-hidden", "true");
  shown.prepend(hint);
  list.after(shown);
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = reasons.indexOf(field.value);
    if (field.value && at < 0) return; // a reason of one's own stays
    event.preventDefault();
    write(field, reasons[at < 0 && by < 0 ? reasons.length - 1 : (at + by + reasons.length) % reasons.length]);
  });
}

function write(field, reason) {
  field.value = reason;
  field.focus();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
