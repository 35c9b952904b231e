// Script of the web app's pages. Everything essential works without it: forms, links, and folded text.
import { listenForKeys } from "./shortcuts.js";
import { choose } from "./selection.js";
import { requireReasons } from "./reasons.js";
import { showToast } from "./toast.js";
import { previewBeside } from "./preview.js";
import { resizeColumns } from "./columns.js";
import { followLive } from "./live_updates.js";
import { fetchRecords } from "./raw_records.js";
import { suggestTerms } from "./suggestions.js";

choose();
requireReasons();
previewBeside();
resizeColumns();
listenForKeys();
showToast();
followLive();
fetchRecords();
suggestTerms();

// An empty filter does not go into the address.
document.querySelector("form.filters")?.addEventListener("formdata", ({ formData }) => {
  const given = [...formData].filter(([, value]) => value);
  for (const name of [...formData.keys()]) formData.delete(name);
  for (const [name, value] of given) formData.append(name, value);
});

// On a telephone the first alert goes before the filters.
const folded = document.querySelector(".folded");
if (folded && matchMedia("(max-width: 760px)").matches) folded.open = false;
