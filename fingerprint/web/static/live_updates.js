// Live updates: server-sent events name new and changed alerts, and the page shows how many.

export function followLive() {
  const bar = document.getElementById("live");
  if (!bar || !("EventSource" in window)) return;
  const fresh = new Set();
  const own = bar.dataset.alert; // of an alert's page: only that one
  const events = new EventSource(`/api/v1/live?since=${bar.dataset.since}`);
  events.addEventListener("alerts", (event) => {
    for (const id of JSON.parse(event.data).alert_ids) if (!own || id === own) fresh.add(id);
    if (fresh.size) announce(bar, fresh);
  });
  addEventListener("pagehide", () => events.close());
}

function announce(bar, fresh) {
  const link = bar.querySelector("a");
  bar.hidden = false; // first: changes of hidden elements are not announced
  link.textContent = bar.dataset.alert
    ? "This alert has changed: reload"
    : `${fresh.size} new or changed ${fresh.size === 1 ? "alert" : "alerts"}: show`;
}
