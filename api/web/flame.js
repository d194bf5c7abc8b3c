// What threads do as a flame graph: the suspects' stacks, coloured by how much more often they show it than their peers.

import { get, quoted } from "./api.js";
import { fill, h } from "./dom.js";
import { counted, ranks, share } from "./format.js";

const THREADS = ["main", "autograd", "loader", "watchdog", "other"];
const LEAST = 0.004;
const ROW = 20;

export async function flameGraph({ run, attempt, suspects }) {
  const path = `/v1/runs/${quoted(run)}/stacks`;
  const [mine, all] = await Promise.all([
    suspects.length ? get(path, { attempt, rank: suspects.slice(0, 16), limit: 200 }) : { items: [] },
    get(path, { attempt, limit: 400 }),
  ]);
  const wanted = new Set(suspects);
  const peers = all.items.filter((dump) => !wanted.has(dump.rank));
  const dumps = mine.items.length ? mine.items : all.items;
  if (!dumps.length) return h("p", { class: "quiet" }, "No stacks came in: they are taken while a slow step is still open, or by argus stacks.");
  const state = { thread: "main", side: "suspects", root: null };
  const body = h("div", {});
  const draw = () => fill(body, controls(state, mine.items.length && peers.length, draw), graph(state, dumps, peers, draw));
  draw();
  const who = mine.items.length ? `${counted(mine.total, "dumps")} of ${ranks(suspects)}` : `${counted(all.total, "dumps")} of all ranks`;
  return [h("p", { class: "quiet" }, `${who}, ${peers.length} of peers read. Choose a frame to see it alone.`), body];
}

function controls(state, hasPeers, draw) {
  const threads = h("select", { "aria-label": "Thread" }, THREADS.map((one) => h("option", { selected: one === state.thread }, one)));
  threads.addEventListener("change", () => {
    Object.assign(state, { thread: threads.value, root: null });
    draw();
  });
  const side = h("button", { type: "button", class: "small" }, state.side === "suspects" ? "Show the peers" : "Show the suspects");
  side.hidden = !hasPeers;
  side.addEventListener("click", () => {
    Object.assign(state, { side: state.side === "suspects" ? "peers" : "suspects", root: null });
    draw();
  });
  const back = h("button", { type: "button", class: "small" }, "Whole stack");
  back.hidden = state.root === null;
  back.addEventListener("click", () => {
    state.root = null;
    draw();
  });
  return h("div", { class: "controls" }, threads, side, back);
}

function tree(dumps, thread) {
  const root = { name: "all", count: 0, below: new Map() };
  for (const dump of dumps)
    for (const one of dump.threads) {
      if (one.kind !== thread || !one.stack) continue;
      let at = root;
      root.count++;
      for (const frame of one.stack.split(";")) {
        if (!at.below.has(frame)) at.below.set(frame, { name: frame, count: 0, below: new Map() });
        at = at.below.get(frame);
        at.count++;
      }
    }
  return root;
}

function graph(state, suspects, peers, draw) {
  const [shown, other] = state.side === "suspects" ? [suspects, peers] : [peers, suspects];
  const root = tree(shown, state.thread);
  const beside = tree(other, state.thread);
  if (!root.count) return h("p", { class: "quiet" }, `No stack of a ${state.thread} thread here.`);
  const top = state.root ? found(root, state.root) : root;
  const cells = [];
  place({ cells, node: top, left: 0, depth: 0, root, beside, twin: state.root ? found(beside, state.root) : beside, path: state.root ?? [], top });
  const deep = Math.max(...cells.map((cell) => cell.depth)) + 1;
  return h("div", { class: "flame", style: { height: `${deep * ROW}px` }, role: "tree", "aria-label": "Stacks, outermost frame on top" },
    cells.map((cell) => frame(cell, root, beside, () => {
      state.root = cell.path.length ? cell.path : null;
      draw();
    })));
}

const found = (root, path) => path.reduce((node, name) => node?.below.get(name), root);

function place({ cells, node, left, depth, twin, path, top }) {
  cells.push({ node, left, width: node.count / top.count, depth, twin, path });
  let at = left;
  for (const child of [...node.below.values()].sort((a, b) => b.count - a.count)) {
    const width = child.count / top.count;
    if (width >= LEAST) place({ cells, node: child, left: at, depth: depth + 1, twin: twin?.below.get(child.name), path: [...path, child.name], top });
    at += width;
  }
}

function frame(cell, root, beside, choose) {
  const mine = cell.node.count / root.count;
  const theirs = beside.count ? (cell.twin?.count ?? 0) / beside.count : null;
  const more = theirs === null ? 0 : mine - theirs;
  const kind = more > 0.1 ? "more" : more < -0.1 ? "less" : "";
  const said = `${cell.node.name}: ${share(mine)}${theirs === null ? "" : `, the others ${share(theirs)}`}`;
  const button = h("button", {
    type: "button", class: `frame ${kind}`, title: said, "aria-label": said, role: "treeitem", "aria-level": cell.depth + 1,
    style: { left: `${cell.left * 100}%`, width: `${cell.width * 100}%`, top: `${cell.depth * ROW}px` },
  }, cell.node.name);
  button.addEventListener("click", choose);
  return button;
}
