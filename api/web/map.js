// Where ranks are: a grid along two dimensions of the layout, and hosts with their ranks.

import { get, quoted } from "./api.js";
import { colour, css, heatColours, painted, scaleLegend, swatches } from "./chart.js";
import { fill, h } from "./dom.js";
import { ratioOf, ranks, times, unpacked } from "./format.js";

const HOST_GAP = 8;
const LEFT = 46;
const TOP = 20;
const LEAST = 3; // pixels of a cell: less is a faint line, or painted over by the cell beside it

export async function rankMap({ run, attempt, suspects = [], victims = [], window = null }) {
  const chart = await get(`/v1/runs/${quoted(run)}/charts/map`, { attempt, window });
  if (chart.note) return { nodes: h("p", { class: "quiet" }, chart.note), hosts: [] };
  const found = { ...chart, codes: unpacked(chart.codes), suspects: new Set(suspects), victims: new Set(victims) };
  const dims = Object.keys(chart.sizes).sort((a, b) => chart.sizes[b] - chart.sizes[a]);
  const body = h("div", {});
  const views = [];
  if (dims.length) views.push(["Layout", () => layoutGrid(found, dims)]);
  views.push(["Hosts", () => hostMap(found)]);
  const buttons = views.map(([name, draw]) => h("button", { type: "button", class: "small" }, name));
  const choose = (at) => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === at)));
    fill(body, views[at][1]());
  };
  buttons.forEach((button, at) => button.addEventListener("click", () => choose(at)));
  choose(0);
  const hosts = [...new Set(suspects.map((rank) => chart.hosts[chart.host[rank]]))].filter(Boolean);
  const nodes = [
    h("div", { class: "controls" }, buttons), body, scaleLegend(),
    swatches({ "ring-suspect": "suspect", "ring-victim": "waits for it" }),
    chart.conflicts.map((text) => h("p", { class: "problem" }, `The sources disagree: ${text}`)),
  ];
  return { nodes, hosts };
}

// Of the ranks in one cell the one that deviates most.
function worst(found, members) {
  let code = 0;
  for (const rank of members) if (found.codes[rank] && (!code || Math.abs(found.codes[rank] - 128) > Math.abs(code - 128))) code = found.codes[rank];
  return code;
}

function layoutGrid(found, dims) {
  const across = dims.includes("dp") ? "dp" : dims[0];
  const down = dims.includes("pp") && across !== "pp" ? "pp" : dims.find((dim) => dim !== across);
  const columns = found.sizes[across];
  const rows = down ? found.sizes[down] : 1;
  const cells = Array.from({ length: rows * columns }, () => []);
  for (let rank = 0; rank < found.host.length; rank++) {
    const at = [down ? found.coords[down][rank] : 0, found.coords[across][rank]];
    if (at[0] >= 0 && at[1] >= 0) cells[at[0] * columns + at[1]].push(rank);
  }
  const grid = (width) => {
    const per = Math.max(1, Math.ceil((columns * LEAST) / (width - LEFT)));
    const shown = Math.ceil(columns / per);
    const wide = Math.min(40, (width - LEFT) / shown);
    return { per, shown, wide, tall: Math.max(14, Math.min(wide, 30)) };
  };
  const places = (width) => {
    const { per, shown, wide, tall } = grid(width);
    return Array.from({ length: rows * shown }, (_, i) => {
      const [row, at] = [Math.floor(i / shown), i % shown];
      const first = row * columns + at * per;
      const members = cells.slice(first, Math.min(first + per, (row + 1) * columns)).flat();
      return { members, x: LEFT + at * wide, y: TOP + row * tall, wide, tall };
    });
  };
  const label = down ? `${across.toUpperCase()} across, ${down.toUpperCase()} down` : `${across.toUpperCase()} across`;
  return tiles(found, label, places, (width) => TOP + 4 + rows * grid(width).tall, (context, width) => {
    const { per, tall } = grid(width);
    context.fillStyle = colour("text-quiet");
    context.textBaseline = "top";
    context.fillText(`${across} 0–${columns - 1} →${per > 1 ? ` (${per} a cell)` : ""}`, LEFT, 2);
    context.textBaseline = "middle";
    const every = Math.ceil(14 / tall);
    for (let row = 0; down && row < rows; row += every) context.fillText(`${down} ${row}`, 2, TOP + (row + 0.5) * tall);
  });
}

// Hosts in the order of the switches they hang on, a band for each switch where one is known.
function hostMap(found) {
  const members = found.hosts.map(() => []);
  found.host.forEach((host, rank) => members[host].push(rank));
  const most = Math.max(...members.map((one) => one.length), 1);
  const small = found.hosts.length > 200;
  const sizes = { across: Math.min(most, 4), side: small ? 5 : 13, name: small ? 0 : 14 };
  sizes.wide = Math.max(sizes.across * sizes.side, small ? 0 : 64) + HOST_GAP;
  sizes.tall = Math.ceil(most / sizes.across) * sizes.side + sizes.name + HOST_GAP;
  const bands = byLeaf(found);
  const layout = (width) => laidOut(found, bands, sizes, Math.max(1, Math.floor(width / sizes.wide)));
  const places = (width) => layout(width).hosts.flatMap(({ host, x, y }) => members[host].map((rank, i) => ({
    members: [rank], wide: sizes.side, tall: sizes.side, host: found.hosts[host],
    x: x + (i % sizes.across) * sizes.side, y: y + sizes.name + Math.floor(i / sizes.across) * sizes.side,
  })));
  const label = bands.length > 1 || bands[0]?.leaf ? "Hosts with their ranks, by the switch they hang on" : "Hosts with their ranks";
  const note = bands.some((band) => band.leaf) ? null : h("p", { class: "quiet" }, "No file says on which switches these hosts hang (setting topology).");
  return h("div", {}, tiles(found, label, places, (width) => layout(width).height, (context, width) => {
    const { hosts, titles } = layout(width);
    context.textBaseline = "top";
    context.fillStyle = colour("text");
    for (const { leaf, y } of titles) context.fillText(leaf, 0, y);
    context.fillStyle = colour("text-quiet");
    if (!small) for (const { host, x, y } of hosts) context.fillText((found.hosts[host] || "unknown").slice(-10), x, y);
  }), note);
}

function byLeaf(found) {
  const bands = new Map();
  found.leaf.forEach((leaf, host) => bands.set(leaf, [...(bands.get(leaf) ?? []), host]));
  return [...bands].sort(([a], [b]) => (a < b ? -1 : 1)).map(([leaf, hosts]) => ({ leaf, hosts }));
}

function laidOut(found, bands, sizes, per) {
  const hosts = [];
  const titles = [];
  let y = 0;
  for (const band of bands) {
    if (bands.length > 1 || band.leaf) {
      titles.push({ leaf: band.leaf || "switch not known", y });
      y += 18;
    }
    band.hosts.forEach((host, at) => hosts.push({ host, x: (at % per) * sizes.wide, y: y + Math.floor(at / per) * sizes.tall }));
    y += Math.ceil(band.hosts.length / per) * sizes.tall;
  }
  return { hosts, titles, height: y };
}

function tiles(found, label, places, heightOf, extra) {
  const told = h("output", { class: "told" }, "Point at a cell, or use the arrow keys.");
  let laid = [];
  let at = -1;
  const drawn = painted(label, heightOf, (context, width) => {
    const colours = heatColours();
    laid = places(width);
    for (const cell of laid) {
      context.fillStyle = css(colours[worst(found, cell.members)]);
      context.fillRect(cell.x, cell.y, Math.max(cell.wide - 1, 1), Math.max(cell.tall - 1, 1));
    }
    if (found.victims.size * 2 <= found.host.length) ring(context, laid, found.victims, "victim");
    ring(context, laid, found.suspects, "suspect");
    at = Math.min(at, laid.length - 1); // a narrower page has fewer cells
    if (at >= 0) ring(context, [laid[at]], new Set(laid[at].members), "text");
    extra(context, width);
  });
  const move = (to) => {
    at = Math.max(0, Math.min(laid.length - 1, to));
    told.textContent = sentence(found, laid[at]);
    drawn.again();
  };
  drawn.canvas.tabIndex = 0;
  drawn.canvas.addEventListener("pointermove", (event) => {
    const box = drawn.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const to = laid.findIndex((cell) => x >= cell.x && x < cell.x + cell.wide && y >= cell.y && y < cell.y + cell.tall);
    if (to >= 0 && to !== at) move(to);
  });
  drawn.canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    move(at + by);
  });
  return h("div", { class: "map" }, drawn.place, told);
}

function ring(context, laid, wanted, name) {
  if (wanted.size > 512 || !wanted.size) return;
  context.strokeStyle = colour(name);
  context.lineWidth = 2;
  for (const cell of laid)
    if (cell.members.some((rank) => wanted.has(rank))) context.strokeRect(cell.x + 0.5, cell.y + 0.5, Math.max(cell.wide - 2, 2), Math.max(cell.tall - 2, 2));
  context.lineWidth = 1;
}

function sentence(found, cell) {
  const ratio = ratioOf(worst(found, cell.members));
  const hosts = [...new Set(cell.members.map((rank) => found.hosts[found.host[rank]]))];
  const where = hosts.length <= 2 ? hosts.join(", ") : `${hosts.length} hosts`;
  const device = cell.members.length === 1 ? found.device[cell.members[0]] : "";
  const said = ratio === undefined ? "not seen" : `own work ${times(ratio)} of its peers'`;
  return [ranks(cell.members, 4), where, device, cell.members.length > 1 ? `the one that stands out most: ${said}` : said].filter(Boolean).join(" · ");
}
