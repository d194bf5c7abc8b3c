// Numbers, ranks and times the way an engineer reads them; the same rules as the card in the terminal.

export function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || value === 0 || (Math.abs(value - Math.round(value)) < 0.005 && size >= 1))
    return Math.round(value).toLocaleString("en-US");
  if (size >= 10) return value.toFixed(0);
  return size >= 1 ? value.toFixed(1) : String(Number(value.toPrecision(2)));
}

export function seconds(value) {
  if (!Number.isFinite(value)) return "unknown";
  const size = Math.abs(value);
  if (size < 1e-3) return `${digits(value * 1e6)} µs`;
  if (size < 1) return `${digits(value * 1e3)} ms`;
  if (size < 120) return `${digits(value)} s`;
  if (size < 7200) return `${digits(value / 60)} min`;
  return size < 172800 ? `${digits(value / 3600)} h` : `${digits(value / 86400)} days`;
}

export function share(value) {
  return Number.isFinite(value) ? `${digits(value * 100)} %` : "unknown";
}

export function times(value) {
  if (!Number.isFinite(value)) return "unknown";
  return Math.abs(value) < 9.95 ? `${value.toFixed(Math.abs(value) < 1.2 && Math.abs(value) > 0.8 ? 2 : 1)}×` : `${digits(value)}×`;
}

const COUNTED = new Set(["allocations", "calls", "kernels", "other runs", "ranks", "saves", "steps", "times", "windows"]);

// A count with its noun, which is given in the plural.
export const counted = (number, noun) => `${number.toLocaleString("en-US")} ${number === 1 ? noun.slice(0, -1) : noun}`;

export function quantity(value, unit) {
  if (!Number.isFinite(value)) return "unknown";
  if (unit === "s") return seconds(value);
  if (unit === "share" || unit === "%") return share(value);
  if (unit === "x" || unit === "ratio") return times(value);
  return `${digits(value)} ${value === 1 && COUNTED.has(unit) ? unit.slice(0, -1) : unit ?? ""}`.trim();
}

export function ranks(numbers, most = 8) {
  if (!numbers.length) return "no rank";
  const runs = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  const parts = runs.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`));
  const shown = parts.slice(0, most).join(", ") + (parts.length > most ? ", …" : "");
  return `${new Set(numbers).size === 1 ? "rank" : "ranks"} ${shown}`;
}

export function when(unixSeconds) {
  if (!Number.isFinite(unixSeconds)) return "";
  return new Date(unixSeconds * 1000).toLocaleString("sv-SE", { hour12: false }).slice(0, 16);
}

// The reader's time of day.
export function clock(unixMs) {
  return new Date(unixMs).toLocaleTimeString("sv-SE", { hour12: false }).slice(0, 5);
}

export function ago(unixSeconds, nowSeconds = Date.now() / 1000) {
  const age = nowSeconds - unixSeconds;
  return age < 5 ? "now" : `${seconds(age)} ago`;
}

export const count = (number, one, many = `${one}s`) => `${digits(number)} ${number === 1 ? one : many}`;

export function unpacked(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// A code of the heat charts as the ratio it stands for; undefined where nobody saw it.
export function ratioOf(code) {
  return code === 0 ? undefined : 2 ** ((code - 128) / 127);
}
