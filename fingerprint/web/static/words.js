// The words of scripts: English as they stand here, or the page's language from its `words`, a catalogue as JSON.

const words = JSON.parse(document.querySelector("meta[name=words]")?.content ?? "{}");
const rules = new Intl.PluralRules(document.documentElement.lang || "en");
export const locale = document.documentElement.lang === "en" ? "en-GB" : document.documentElement.lang;

/** A message with its placeholders, `%(name)s`, filled in: text, never markup. */
export function _(message, values = {}) {
  return fill(words[message] ?? message, values);
}

/** The message for a count. Languages of the catalogue have one form for one and one for several, as English. */
export function ngettext(one, several, count, values = {}) {
  const forms = words[one] ?? [one, several];
  return fill(forms[rules.select(count) === "one" ? 0 : 1], { num: count.toLocaleString(locale), ...values });
}

function fill(message, values) {
  return message.replace(/%\((\w+)\)s/g, (_, name) => values[name] ?? "");
}
