// What the charts share: the theme's colours, their size, and redrawing when either changes.

import { h } from "./dom.js";

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Call `draw(width)` now, when the element's width changes and when the theme does, until it is gone.
export function redrawn(element, draw) {
  let width = 0;
  const again = () => {
    if (!element.isConnected && width) return stop();
    const now = Math.floor(element.clientWidth);
    if (now > 0) draw((width = now));
  };
  const watch = new ResizeObserver(() => Math.floor(element.clientWidth) !== width && again());
  const stop = () => {
    watch.disconnect();
    removeEventListener("argus-theme", again);
  };
  watch.observe(element);
  addEventListener("argus-theme", again);
}

// A line chart by uPlot; `options(width)` is made anew each time, because colours are part of it.
export function plot(options, data, { label }) {
  const place = h("div", { class: "plot", role: "img", "aria-label": label });
  let drawn = null;
  redrawn(place, (width) => {
    drawn?.destroy();
    drawn = new uPlot({ width, ...options(width) }, data, place);
  });
  return place;
}

export function axis(extra = {}) {
  return {
    stroke: colour("text-quiet"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...extra,
  };
}

// A canvas sharp on every screen: `paint(context, width, height)` in CSS pixels.
export function painted(label, heightOf, paint) {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  const place = h("div", { class: "paint" }, canvas);
  const size = { width: 0, height: 0 };
  const draw = (width) => {
    const scale = devicePixelRatio || 1;
    size.width = width;
    size.height = heightOf(width);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(size.height * scale);
    canvas.style.height = `${size.height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, size.height);
    context.font = "12px system-ui, sans-serif";
    paint(context, width, size.height);
  };
  redrawn(place, draw);
  return { place, canvas, size, again: () => size.width && draw(size.width) };
}

// 256 colours: blue below what is expected, red above, one for what nobody saw.
export function heatColours() {
  const [low, middle, high, none] = ["heat-low", "heat-middle", "heat-high", "heat-none"].map((name) => rgb(colour(name)));
  return Array.from({ length: 256 }, (_, code) => {
    if (code === 0) return none;
    const away = (code - 128) / 127;
    const part = Math.abs(away) ** CONTRAST;
    return middle.map((from, i) => Math.round(from + ((away < 0 ? low : high)[i] - from) * part));
  });
}

// Below 1 small differences show more; a rank 10 % slower must be seen beside noise of 2 %.
const CONTRAST = 0.7;

export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

function rgb(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

export function scaleLegend() {
  return swatches({ low: "half the time", middle: "as expected", high: "twice the time", none: "not seen" });
}

export function swatches(meanings) {
  return h("p", { class: "legend" }, Object.entries(meanings).map(([kind, meaning]) => h("span", {}, h("span", { class: `swatch ${kind}` }), meaning)));
}
