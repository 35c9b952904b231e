// What script adds to the desk's pages. Everything essential works without it: forms, links, and folded text.
import { listenForKeys } from "./keys.js";
import { choose } from "./choosing.js";
import { followLive } from "./live.js";
import { fetchRecords } from "./records.js";

choose();
listenForKeys();
followLive();
fetchRecords();
