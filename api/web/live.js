// Looking again: while a page is shown and seen, some task every so often; a service that is away is told above the page.

import { say } from "./dom.js";
import { clock } from "./format.js";

const line = document.getElementById("stale");
const SLOW = { message: "The service takes long to answer." };

// What is shown is of now.
export function fresh() {
  line.hidden = true;
}

function stale(error, sinceMs) {
  const why = error.status === 401 ? "The log-in has ended: load the page anew." : error.message;
  const text = `${why} What is shown here is as of ${clock(sinceMs)}.`;
  if (line.hidden) say(text);
  line.textContent = text;
  line.hidden = false;
}

export function every(periodS, stillHere, task) {
  let seenMs = Date.now();
  let isLooking = false;
  const timer = setInterval(async () => {
    if (!stillHere()) return clearInterval(timer);
    if (document.visibilityState !== "visible") return;
    // One look at a time: looks pile up before a slow service, and an old answer would come after a newer one.
    if (isLooking) return stale(SLOW, seenMs);
    isLooking = true;
    try {
      await task();
      seenMs = Date.now();
      if (stillHere()) fresh();
    } catch (error) {
      if (!error.isProblem) throw error;
      if (stillHere()) stale(error, seenMs);
    } finally {
      isLooking = false;
    }
  }, periodS * 1000);
}
