// A heat map on a canvas: ranks down, windows or phases across; pointer and arrow keys read cells.

import { colour, heatColours, painted } from "./chart.js";
import { fill, h } from "./dom.js";
import { ratioOf, ranks, times } from "./format.js";

const LEFT = 58;
const BOTTOM = 22;

export function rowRanks(chart, row) {
  const first = chart.first_rank + row * chart.ranks_per_row;
  return [first, Math.min(first + chart.ranks_per_row - 1, chart.last_rank)];
}

// `columns`: [{label, tick}]; `marks`: rows to point at; `onRow(row)` when one is chosen.
export function heatMap({ chart, codes, columns, label, suspects = [], columnMarks = [], onRow = null, height = null }) {
  const cursor = { row: -1, column: -1 };
  const told = h("output", { class: "told" });
  const rows = chart.rows;
  const image = new OffscreenCanvas(columns.length, rows);
  const tall = height ?? Math.max(120, Math.min(440, rows * 14));

  const drawn = painted(label, () => tall + BOTTOM, (context, width) => {
    paintCells(image, codes, columns.length, rows);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, LEFT, 0, width - LEFT, tall);
    axes(context, width);
    markSuspects(context);
    markColumns(context, width);
    if (cursor.row >= 0) outline(context, width);
  });

  function axes(context, width) {
    context.fillStyle = colour("text-quiet");
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.max(1, Math.ceil(rows / (tall / 16)));
    for (let row = 0; row < rows; row += every)
      context.fillText(String(rowRanks(chart, row)[0]), LEFT - 12, Math.min(((row + 0.5) * tall) / rows, tall - 6));
    context.textAlign = "center";
    const step = Math.max(1, Math.ceil(columns.length / ((width - LEFT) / 84)));
    for (let column = 0; column < columns.length; column += step)
      context.fillText(columns[column].tick, Math.max(LEFT + 24, Math.min(x(column + 0.5, width), width - 30)), tall + BOTTOM / 2 + 2);
  }

  const x = (column, width) => LEFT + (column * (width - LEFT)) / columns.length;

  function markSuspects(context) {
    context.fillStyle = colour("suspect");
    for (const rank of suspects) {
      if (rank < chart.first_rank || rank > chart.last_rank) continue;
      const middle = ((Math.floor((rank - chart.first_rank) / chart.ranks_per_row) + 0.5) * tall) / rows;
      context.beginPath();
      context.moveTo(LEFT - 2, middle);
      context.lineTo(LEFT - 9, middle - 5);
      context.lineTo(LEFT - 9, middle + 5);
      context.fill();
    }
  }

  function markColumns(context, width) {
    context.strokeStyle = colour("suspect");
    context.setLineDash([4, 3]);
    for (const column of columnMarks) {
      context.beginPath();
      context.moveTo(x(column, width), 0);
      context.lineTo(x(column, width), tall);
      context.stroke();
    }
    context.setLineDash([]);
  }

  function outline(context, width) {
    context.strokeStyle = colour("text");
    context.lineWidth = 1.5;
    const cell = tall / rows;
    context.strokeRect(x(cursor.column, width), cursor.row * cell, (width - LEFT) / columns.length, Math.max(cell, 2));
    context.lineWidth = 1;
  }

  function move(row, column) {
    cursor.row = Math.max(0, Math.min(rows - 1, row));
    cursor.column = Math.max(0, Math.min(columns.length - 1, column));
    const [first, last] = rowRanks(chart, cursor.row);
    const who = first === last ? ranks([first]) : `${ranks(range(first, last))}, the one that stands out most`;
    const ratio = ratioOf(codes[cursor.row * columns.length + cursor.column]);
    const said = ratio === undefined ? "not seen" : `${times(ratio)}${ratio >= 1.99 ? " or more" : ""} of what is expected`;
    told.textContent = `${who} · ${columns[cursor.column].label}: ${said}`;
    drawn.again();
  }

  const { canvas, size } = drawn;
  canvas.tabIndex = 0;
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left - LEFT) * columns.length) / (size.width - LEFT));
    const row = Math.floor(((event.clientY - box.top) * rows) / tall);
    if (row >= 0 && row < rows && column >= 0 && (row !== cursor.row || column !== cursor.column)) move(row, column);
  });
  canvas.addEventListener("click", () => cursor.row >= 0 && onRow?.(cursor.row));
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && cursor.row >= 0) onRow?.(cursor.row);
    if (!by) return;
    event.preventDefault();
    move(cursor.row + by[0], cursor.column + by[1]);
  });
  fill(told, "Point at a cell, or use the arrow keys.");
  return h("div", { class: "heat" }, drawn.place, told);
}

const range = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

function paintCells(image, codes, columns, rows) {
  const context = image.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  const colours = heatColours();
  for (let i = 0; i < columns * rows; i++) {
    const [r, g, b] = colours[codes[i]];
    pixels.data.set([r, g, b, 255], i * 4);
  }
  context.putImageData(pixels, 0, 0);
}
