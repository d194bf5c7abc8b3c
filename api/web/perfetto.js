// Raw records of an incident: order them, and hand the trace to a Perfetto that runs in another tab.

import { bytes, get, post } from "./api.js";
import { away, fill, h, into, link } from "./dom.js";
import { ranks, when } from "./format.js";

const GREETING_MS = 250;
const PATIENCE = 120;

export function captures(one) {
  const list = h("div", {});
  const order = h("button", { type: "button" }, "Fetch the raw records");
  const told = h("p", { class: "quiet", role: "status" });
  const load = () => into(list, get("/v1/captures", { incident: one.id }), (found) => found.items.map(row));
  order.addEventListener("click", async () => {
    order.disabled = true;
    try {
      const made = await post("/v1/captures", { incident: one.id });
      told.textContent = `Ordered from ${made.hosts.join(", ")}; they send within seconds if they still have them.`;
      setTimeout(load, 4000);
    } catch (error) {
      told.textContent = error.message;
    }
    order.disabled = false;
  });
  load();
  return [list, order, told];
}

function row(capture) {
  const come = Object.entries(capture.bytes).filter(([, size]) => size > 0).length;
  const path = `v1/captures/${encodeURIComponent(capture.id)}/timeline`;
  const open = h("button", { type: "button", class: "small" }, "Open in Perfetto");
  const told = h("span", { class: "quiet" });
  open.addEventListener("click", () => inPerfetto(path, capture.id, told));
  return h("p", {}, `${when(capture.created_s)}: steps ${capture.first_step}–${capture.end_step - 1} of ${ranks(capture.ranks)}, ${come} of ${capture.ranks.length} in. `,
    come ? [open, " ", link(path, "Download the trace"), " ", told] : null);
}

// Perfetto's own protocol: greet the other window until it answers, then send it the trace.
async function inPerfetto(path, title, told) {
  const url = window.argusPage.perfetto_url;
  if (!/^https?:\/\//.test(url)) return void fill(told, "perfetto_url is not an http address; download the trace.");
  const other = window.open(url);
  if (!other) {
    fill(told, "The browser blocked the window; download the trace and open it at ", away(url, url), ".");
    return;
  }
  let buffer;
  try {
    buffer = await bytes(path);
  } catch (error) {
    other.close();
    return void fill(told, error.message);
  }
  const origin = new URL(url).origin;
  let left = PATIENCE;
  const timer = setInterval(() => (left-- > 0 ? other.postMessage("PING", origin) : clearInterval(timer)), GREETING_MS);
  addEventListener("message", function heard(event) {
    if (event.source !== other || event.origin !== origin || event.data !== "PONG") return;
    clearInterval(timer);
    removeEventListener("message", heard);
    other.postMessage({ perfetto: { buffer, title } }, origin);
  });
}

export function dashboards(run, fromS, toS) {
  const base = window.argusPage.grafana_url;
  if (!base) return h("p", { class: "quiet" }, "No Grafana is set up (grafana_url in argus.toml).");
  const query = new URLSearchParams({ "var-run": run });
  if (fromS) query.set("from", String(Math.round(fromS * 1000)));
  if (toS) query.set("to", String(Math.round(toS * 1000)));
  return h("p", {}, away(`${base}/d/argus-run?${query}`, "This run in Grafana"));
}
