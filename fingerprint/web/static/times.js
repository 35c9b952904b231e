// Times on every page: UTC as the server wrote them, or the time zone of this browser, as the switch in the header says.
import { _, ngettext, locale } from "./words.js";

const button = document.getElementById("zone");
const now = () => Date.now();
const part = (options) => {
  const formats = [undefined, "UTC"].map((timeZone) => new Intl.DateTimeFormat(locale, { timeZone, ...options }));
  return (when, local) => formats[local ? 0 : 1].format(when);
};
const day = part({ day: "numeric", month: "long", year: "numeric" });
const clock = part({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const shortDay = part({ day: "numeric", month: "short" });
const longDay = part({ weekday: "long", day: "numeric", month: "long" });
const hour = part({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const sorted = [undefined, "UTC"].map((timeZone) => new Intl.DateTimeFormat("sv", { timeZone, year: "numeric", month: "2-digit", day: "2-digit" }));
const stamp = (when, local) => sorted[local ? 0 : 1].format(when);
const both = (when, local) => `${day(when, local)}, ${clock(when, local)}`;
const named = new Intl.DateTimeFormat(locale, { timeZoneName: "short" });
/** The name of the zone at a time: summer time has another one. */
const zone = (local, when = now()) =>
  local ? named.formatToParts(when).find((each) => each.type === "timeZoneName").value : "UTC";

const UNITS = [
  [86400, () => _("d"), (count) => ngettext("%(num)s day ago", "%(num)s days ago", count)],
  [3600, () => _("h"), (count) => ngettext("%(num)s hour ago", "%(num)s hours ago", count)],
  [60, () => _("min"), (count) => ngettext("%(num)s minute ago", "%(num)s minutes ago", count)],
];

const FORMS = {
  time: (when, local) => clock(when, local),
  day: (when, local) => day(when, local),
  "day-time": (when, local) => both(when, local),
  stamp: (when, local) => `${stamp(when, local)} ${hour(when, local)}`,
  "stamp-seconds": (when, local) => `${stamp(when, local)} ${clock(when, local)}`,
  tick: (when, local) => (hour(when, local) === "00:00" ? shortDay(when, local) : hour(when, local)),
  sentence: (when, local, { sentence }) =>
    sentence.replace("{time}", () => `${longDay(when, local).replace(",", "")} ${hour(when, local)} ${zone(local, when)}`),
  age: (when) => elapsed(when, (count, short) => `${count} ${short()}`, _("now")),
  ago: (when) => elapsed(when, (count, short, long) => long(count), _("just now")),
};

function elapsed(when, words, none) {
  const seconds = Math.max(0, Math.floor((now() - when) / 1000));
  const found = UNITS.find(([size]) => seconds >= size);
  return found ? words(Math.floor(seconds / found[0]), found[1], found[2]) : none;
}

const isLocal = () => localStorage.getItem("zone") === "local";

/** Write all times of an element, with both zones in the titles; charts have theirs in `data-at`. */
export function showTimes(within = document) {
  const local = isLocal();
  for (const element of within.querySelectorAll("[data-show]")) {
    const when = new Date(element.dataset.at ?? element.dateTime);
    if (Number.isNaN(when.valueOf())) continue;
    const form = FORMS[endsOnAnotherDay(element, when, local) ? "day-time" : element.dataset.show];
    if (!form) continue;
    const text = form(when, local, element.dataset);
    if (element.textContent !== text) element.textContent = text;
    if (element.dateTime) element.title = `${both(when, false)} UTC · ${both(when, true)} ${zone(true, when)}`;
  }
  for (const element of within.querySelectorAll("[data-zone]")) element.textContent = zone(local, timeBefore(element));
}

/** The time that a zone stands behind; none for a zone of a heading or an axis. */
function timeBefore(element) {
  const before = element.previousElementSibling;
  return before?.dateTime ? new Date(before.dateTime) : undefined;
}

/** The end of a span has its day only where it differs from that of the beginning, which depends on the zone. */
function endsOnAnotherDay(element, when, local) {
  const { after, show } = element.dataset;
  return after && (show === "time" || show === "day-time") && day(when, local) !== day(new Date(after), local);
}

function label() {
  button.hidden = false;
  button.textContent = isLocal() ? zone(true) : "UTC";
  button.title = isLocal() ? _("Times are local: show UTC") : _("Times are in UTC: show local time");
  button.setAttribute("aria-pressed", String(isLocal()));
  button.setAttribute("aria-label", _("Local time (now %(zone)s)", { zone: button.textContent }));
}

if (button) {
  label();
  button.addEventListener("click", () => {
    localStorage.setItem("zone", isLocal() ? "utc" : "local");
    label();
    showTimes();
  });
}
showTimes();
setInterval(() => showTimes(), 60_000);

// A menu of the header or the toolbar closes where another one opens, and on Escape.
document.addEventListener("toggle", ({ target }) => {
  if (!target.open || !target.matches("details.menu")) return;
  for (const other of document.querySelectorAll("details.menu[open]")) if (other !== target) other.open = false;
}, true);
document.addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.activeElement?.closest?.("details.menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); event.preventDefault(); }
});
