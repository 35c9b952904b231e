// Script of the web app's pages. Everything essential works without it: forms, links, and folded text.
import { listenForKeys } from "./shortcuts.js";
import { choose } from "./selection.js";
import { followLive } from "./live_updates.js";
import { fetchRecords } from "./raw_records.js";
import { suggestTerms } from "./suggestions.js";

choose();
listenForKeys();
followLive();
fetchRecords();
suggestTerms();

// An empty filter does not go into the address.
document.querySelector("form.filters")?.addEventListener("formdata", ({ formData }) => {
  const given = [...formData].filter(([, value]) => value);
  for (const name of [...formData.keys()]) formData.delete(name);
  for (const [name, value] of given) formData.append(name, value);
});
