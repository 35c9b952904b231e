// Live updates: server-sent events name new and changed alerts, and the page shows how many.
import { keepSelection } from "./selection.js";
import { rows } from "./rows.js";
import { _, ngettext } from "./words.js";

export function followLive() {
  markFresh();
  const bar = document.getElementById("live");
  if (!bar || !("EventSource" in window)) return;
  const fresh = new Set();
  const own = bar.dataset.alert; // of an alert's page: only that one
  const events = new EventSource(`/api/v1/live?since=${bar.dataset.since}`);
  const title = document.title;
  events.addEventListener("alerts", (event) => {
    for (const id of JSON.parse(event.data).alert_ids) if (!own || id === own) fresh.add(id);
    if (fresh.size) announce(bar, fresh, title);
  });
  bar.querySelector("a").addEventListener("click", () => {
    sessionStorage.setItem("fresh", JSON.stringify([...fresh].slice(-500)));
    keepSelection();
  });
  addEventListener("pagehide", () => events.close());
  // Or it would ask again while the page still shows, and be refused.
  document.querySelector("form[action='/logout']")?.addEventListener("submit", () => events.close());
}

function announce(bar, fresh, title) {
  const link = bar.querySelector("a");
  bar.hidden = false; // first: changes of hidden elements are not announced
  link.textContent = bar.dataset.alert
    ? _("This alert has changed: reload")
    : ngettext("%(num)s new or changed alert: show", "%(num)s new or changed alerts: show", fresh.size);
  document.title = `(${fresh.size}) ${title}`;
}

/** After "show", the rows that were announced are marked. */
function markFresh() {
  const ids = new Set(JSON.parse(sessionStorage.getItem("fresh") ?? "[]"));
  sessionStorage.removeItem("fresh");
  for (const row of rows()) {
    if (!ids.has(row.dataset.alert)) continue;
    row.classList.add("fresh");
    const chip = document.createElement("span");
    chip.className = "chip new";
    chip.textContent = _("new");
    row.querySelector(".badges")?.prepend(chip);
  }
}
