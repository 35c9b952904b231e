// Suggestions for fields: their own lists, filled as one types. The forms work the same without them.

const PAUSE = 150; // milliseconds without a key before the server is asked

export function suggestTerms() {
  suggest(document.getElementById("search-suggestions") && document.getElementById("search"), async (text, signal) => {
    const typed = lastTerm(text);
    const found = typed ? await fetchTerms(typed, signal) : [];
    return found.map((each) => option(typed.before + each.term, each.about));
  });
  for (const field of document.querySelectorAll("input[data-suggest]")) {
    suggest(field, async (text, signal) => {
      const found = await fetchTerms({ field: field.dataset.suggest, begins: text }, signal);
      const whole = field.hasAttribute("data-whole"); // what compares whole principals finds none by a part
      return found.filter(({ value }) => !whole || value.includes(":")).map(({ value }) => option(value, ""));
    });
  }
}

// Fill the list of a field with what `find` answers to its text, after a pause.
function suggest(field, find) {
  const list = field?.list;
  if (!list) return;
  let timer, request;
  const ask = async () => {
    request?.abort();
    request = new AbortController();
    try {
      list.replaceChildren(...(await find(field.value, request.signal)));
    } catch {
      // Another key was pressed, or the server is away: the list stays as it is.
    }
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  };
  field.addEventListener("input", later);
  field.addEventListener("focus", later, { once: true });
}

// The term being typed at the end of a query, and what stands before it; null within quotes or brackets.
function lastTerm(text) {
  const start = Math.max(text.lastIndexOf(" "), text.lastIndexOf("\t")) + 1;
  const before = text.slice(0, start);
  if ((before.split('"').length - 1) % 2 || before.lastIndexOf("(") > before.lastIndexOf(")")) return null;
  const minus = text[start] === "-" ? "-" : "";
  const term = text.slice(start + minus.length);
  if (/["()<>]/.test(term)) return null;
  const colon = term.indexOf(":");
  return { before: before + minus, field: colon < 0 ? "" : term.slice(0, colon), begins: term.slice(colon + 1) };
}

async function fetchTerms({ field, begins }, signal) {
  const asked = new URLSearchParams({ field, begins });
  const answer = await fetch(`/api/v1/suggestions?${asked}`, { credentials: "same-origin", signal });
  return answer.ok ? answer.json() : [];
}

function option(value, about) {
  const made = document.createElement("option");
  made.value = value;
  if (about) made.label = about;
  return made;
}
