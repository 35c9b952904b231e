// Suggestions for the search field: the field's own list, filled as one types. The form works the same without them.

const PAUSE = 150; // milliseconds without a key before the server is asked

export function suggestTerms() {
  const field = document.getElementById("search");
  const list = document.getElementById("search-suggestions");
  if (!field || !list) return;
  let timer, request;
  const ask = async () => {
    request?.abort();
    request = new AbortController();
    const typed = lastTerm(field.value);
    try {
      const found = typed ? await fetchTerms(typed, request.signal) : [];
      list.replaceChildren(...found.map((each) => option(typed.before, each)));
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

function option(before, { term, about }) {
  const made = document.createElement("option");
  made.value = before + term;
  if (about) made.label = about;
  return made;
}
