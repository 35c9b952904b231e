// What script adds to the desk's pages. Everything essential works without it: forms, links, and folded text.
import { listenForKeys } from "./keys.js";
import { choose } from "./choosing.js";
import { followLive } from "./live.js";
import { fetchRecords } from "./records.js";

choose();
listenForKeys();
followLive();
fetchRecords();

// A filter that asks nothing does not go into the address.
document.querySelector("form.filters")?.addEventListener("formdata", ({ formData }) => {
  const asked = [...formData].filter(([, value]) => value);
  for (const name of [...formData.keys()]) formData.delete(name);
  for (const [name, value] of asked) formData.append(name, value);
});
