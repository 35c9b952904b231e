// Raw records, fetched when an event is opened, and shown as text in their place. The link leads there without script.

import { offerCopy } from "./copy.js";
import { _ } from "./words.js";

export function fetchRecords() {
  for (const event of document.querySelectorAll(".timeline details.event")) {
    const fetchIt = () => show(event.querySelector(".raw"));
    if (event.open) fetchIt(); // opened before this script ran
    else event.addEventListener("toggle", fetchIt, { once: true });
  }
}

async function show(place) {
  const link = place?.querySelector("a");
  if (!link) return;
  try {
    const answer = await fetch(link.href, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const record = document.createElement("pre");
    record.tabIndex = 0;
    record.setAttribute("role", "region");
    record.setAttribute("aria-label", _("The record"));
    record.textContent = page.getElementById("record").textContent;
    const whole = document.createElement("div");
    whole.className = "raw-record";
    whole.append(record);
    place.replaceWith(whole);
    offerCopy(record);
  } catch {
    link.textContent = _("The record could not be fetched: open it on a page of its own");
  }
}
