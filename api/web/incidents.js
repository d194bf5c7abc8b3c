// All incidents, the open ones first.

import { get } from "./api.js";
import { badge, fill, h, say } from "./dom.js";
import { every } from "./live.js";
import { ago, count, digits, share } from "./format.js";

const PAGE = 50;
const AGAIN_S = 15;

export async function show(place, _, { stillHere }) {
  const list = h("div", { class: "incidents" });
  const more = h("button", { type: "button" }, "Show more");
  const state = h("select", { "aria-label": "Status" }, ["all", "open", "resolved"].map((one) => h("option", {}, one)));
  const text = h("input", { type: "search", placeholder: "run, class or host", "aria-label": "Filter what is shown" });
  let items = [];
  let total = 0;

  const draw = () => {
    const wanted = text.value.trim().toLowerCase();
    const seen = items.filter((one) => !wanted || haystack(one).includes(wanted));
    fill(list, seen.map(row), seen.length ? null : h("p", { class: "quiet" }, items.length ? "None of those shown." : calm()));
    more.hidden = items.length >= total;
    say(count(seen.length, "incident"));
  };
  const load = async (anew) => {
    const status = state.value === "all" ? null : state.value;
    const page = await get("/v1/incidents", { limit: PAGE, offset: anew ? 0 : items.length, status });
    items = anew ? page.items : [...items, ...page.items];
    total = page.total;
    draw();
  };
  const again = async () => {
    const status = state.value === "all" ? null : state.value;
    const page = await get("/v1/incidents", { limit: Math.min(Math.max(items.length, PAGE), 1000), status });
    if (JSON.stringify(page.items) === JSON.stringify(items)) return;
    ({ items, total } = page);
    draw();
  };
  state.addEventListener("change", () => load(true));
  text.addEventListener("input", draw);
  more.addEventListener("click", () => load(false));
  await load(true);
  fill(place, h("div", { class: "title" }, h("h1", {}, "Incidents"), state, text), list, more);
  every(AGAIN_S, stillHere, again);
}

const calm = () => "No incident. Every rank of every run keeps pace with its peers.";

function haystack(one) {
  return [one.run, one.class, one.scope, one.verdict, one.diagnosis?.headline].join(" ").toLowerCase();
}

function row(one) {
  const cost = one.cost?.share_of_step ? `${share(one.cost.share_of_step)} of each step` : "";
  const hours = one.cost?.gpu_hours_so_far >= 0.05 ? `${digits(one.cost.gpu_hours_so_far)} GPU-hours so far` : "";
  return h("a", { class: `incident ${one.status} ${one.severity}`, href: `#/incident/${encodeURIComponent(one.id)}` },
    h("span", { class: "badges" }, badge(one.verdict, one.verdict), badge(one.class), badge(one.status, one.status)),
    h("strong", {}, one.diagnosis?.headline ?? `${one.class} at ${one.scope}`),
    h("span", { class: "quiet" }, [one.run, `since step ${digits(one.onset_step)}`, ago(one.opened_s, window.argusPage.now_s), cost, hours].filter(Boolean).join(" · ")));
}

export { row };
