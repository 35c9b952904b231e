// A button beside each text that is worth copying. Without script the text can be selected as any other.
import { _ } from "./words.js";

const SHOWN = 1500; // milliseconds that a button says that it copied

/** Put a button after an element; it copies the element's text. */
export function offerCopy(element) {
  if (!navigator.clipboard) return; // browsers have it where the page came by HTTPS or from the own machine
  const text = (element.querySelector(".fold > bdi") ?? element).textContent.trim(); // folded text stands there whole
  if (!text) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = _("Copy");
  button.addEventListener("click", () => copy(button, text));
  element.after(" ", button);
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = _("Copied");
  } catch {
    button.textContent = _("Not copied");
  }
  setTimeout(() => (button.textContent = _("Copy")), SHOWN);
}

for (const element of document.querySelectorAll("[data-copy]")) offerCopy(element);
