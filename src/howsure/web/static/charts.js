// Small drawings. Each says in its label what it shows.

import { digits, h, percent, s } from "./dom.js";

/** @typedef {import("./api.js").Histogram} Histogram */

/**
 * A probability as a bar, hidden from screen readers: the number is next to it.
 * @param {number} p
 * @param {string} [className]
 */
export function bar(p, className = "") {
  const whole = { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: `bar ${className}`, "aria-hidden": "true" };
  return s(
    "svg",
    whole,
    s("rect", { class: "track", width: 100, height: 6, rx: 0 }),
    s("rect", { class: "fill", width: Math.max(0.5, 100 * p), height: 6, rx: 0 }),
  );
}

/**
 * How much of an uncertainty is due to the picture (aleatoric) and how much to the model (epistemic).
 * @param {import("./api.js").Split} split
 */
function splitBar({ picture, model }) {
  const share = picture / (picture + model || 1);
  if (share === 1) return h("p", { class: "soft" }, "All of it is about the picture: this method takes the model as it is.");
  if (share === 0) return h("p", { class: "soft" }, "All of it is about the model: this method takes the picture as it is.");
  const whole = { viewBox: "0 0 100 6", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" };
  return h(
    "div",
    { class: "split" },
    s(
      "svg",
      whole,
      s("rect", { class: "about-picture", width: 100 * share, height: 6 }),
      s("rect", { class: "about-model", x: 100 * share, width: 100 * (1 - share), height: 6 }),
    ),
    h("p", { class: "about-picture" }, h("strong", {}, percent(share)), " is about the picture: another one may help."),
    h("p", { class: "about-model" }, h("strong", {}, percent(1 - share)), " is about the model: it may learn from more like it."),
  );
}

/**
 * Where a query's uncertainty lies among those of the gallery, and what it is about where the method can tell.
 * @param {Histogram} histogram
 * @param {{now: number, before: number | null, reference: number | null, rank: number | null, split: import("./api.js").Split | null}} query
 */
export function uncertaintyStrip(histogram, { now, before, reference, rank, split }) {
  const [width, height, foot] = [420, 84, 16];
  const edges = histogram.edges;
  const low = Math.min(edges[0] ?? 0, now, before ?? now);
  const high = Math.max(edges[edges.length - 1] ?? 1, now, before ?? now);
  const x = (/** @type {number} */ value) => 6 + ((width - 12) * (value - low)) / (high - low || 1);
  const top = Math.max(...histogram.counts, 1);
  const bars = histogram.counts.map((count, i) => {
    const [from, to] = [edges[i] ?? 0, edges[i + 1] ?? 0];
    const tall = (height - foot - 22) * Math.sqrt(count / top); // a long tail stays visible
    return s("rect", {
      class: "gallery",
      x: x(from),
      y: height - foot - tall,
      width: Math.max(0.5, x(to) - x(from) - 0.5),
      height: tall,
    });
  });
  const share = rank === null ? "" : `, more than ${percent(rank)} of the gallery`;
  const label = `Uncertainty of the picture: ${digits(now)}${share}`;
  const marks = [
    reference !== null && reference < high && s("line", { class: "reference", x1: x(reference), x2: x(reference), y1: 14, y2: height - foot }),
    before !== null && s("circle", { class: "before", cx: x(before), cy: 9, r: 4 }),
    s("line", { class: "now", x1: x(now), x2: x(now), y1: 12, y2: height - foot }),
    s("circle", { class: "now", cx: x(now), cy: 9, r: 4.5 }),
  ];
  return h(
    "figure",
    { class: "strip" },
    s(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
      ...bars,
      s("line", { class: "axis", x1: 0, x2: width, y1: height - foot, y2: height - foot }),
      s("text", { x: 4, y: height - 3 }, "certain"),
      s("text", { x: width - 4, y: height - 3, "text-anchor": "end" }, "uncertain"),
      ...marks,
    ),
    h("figcaption", {}, rank === null ? "" : `More uncertain than ${percent(rank)} of the gallery.`, split && splitBar(split)),
  );
}

/**
 * Two embeddings along the line through their means.
 * @param {import("./api.js").Bell[]} bells
 */
export function bellCurves(bells) {
  const [width, height] = [420, 130];
  const widest = Math.max(...bells.map((one) => one.spread));
  const gap = Math.max(...bells.map((one) => one.at), 1e-9);
  const reach = Math.max(3 * widest, 0.25 * gap);
  const x = (/** @type {number} */ value) => (width * (value + reach)) / (gap + 2 * reach);
  const curves = bells.flatMap((bell, i) => {
    const mark = s("line", { class: `mean series-${i + 1}`, x1: x(bell.at), x2: x(bell.at), y1: 18, y2: height - 18 });
    const name = s("text", { x: x(bell.at), y: 12, "text-anchor": "middle" }, i ? "second" : "first");
    if (bell.spread === 0) return [mark, name];
    const steps = Array.from({ length: 81 }, (_, step) => bell.at + bell.spread * (step / 10 - 4));
    const points = steps.map((at) => {
      const tall = Math.exp(-0.5 * ((at - bell.at) / bell.spread) ** 2);
      return `${x(at).toFixed(1)},${(height - 18 - (height - 40) * tall).toFixed(1)}`;
    });
    return [s("polygon", { class: `bell series-${i + 1}`, points: points.join(" ") }), mark, name];
  });
  const deviations = bells.map((bell) => digits(bell.spread)).join(" and ");
  return h(
    "figure",
    { class: "bells" },
    s(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `The means lie ${digits(gap)} apart; standard deviations along that line are ${deviations}`,
      },
      ...curves,
      s("line", { class: "axis", x1: 0, x2: width, y1: height - 18, y2: height - 18 }),
    ),
    h(
      "figcaption",
      {},
      widest === 0
        ? `Means ${digits(gap)} apart. This model gives every picture a point, without a variance.`
        : `Means ${digits(gap)} apart, standard deviations along that line ${deviations}.`,
    ),
  );
}

/**
 * A plot of points joined by a line, both axes from 0. A dot is as large as its weight; without dots it is a curve.
 * @param {{points: [number, number][], marks?: [number, number][], diagonal?: boolean, dots?: boolean, weights?: number[], names: [string, string], most: [number, number], label: string}} plot
 */
export function linePlot({ points, marks = [], diagonal = false, dots = true, weights = [], names, most, label }) {
  const [width, height, left, right, top, foot] = [440, 320, 52, 24, 30, 44];
  const x = (/** @type {number} */ value) => left + ((width - left - right) * value) / most[0];
  const y = (/** @type {number} */ value) => height - foot - ((height - foot - top) * value) / most[1];
  const heaviest = Math.max(...weights);
  const size = (/** @type {number | undefined} */ weight) => (weight === undefined ? 3 : 2 + 5 * Math.sqrt(weight / heaviest));
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const text = (/** @type {number} */ value) => `${Number((100 * value).toPrecision(2))}\u00a0%`;
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "plot" },
    ...ticks.flatMap((tick) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(tick * most[1]), y2: y(tick * most[1]) }),
      s("text", { x: left - 6, y: y(tick * most[1]) + 4, "text-anchor": "end" }, text(tick * most[1])),
      s("text", { x: x(tick * most[0]), y: height - foot + 16, "text-anchor": "middle" }, text(tick * most[0])),
    ]),
    s("text", { x: (width + left) / 2, y: height - 8, "text-anchor": "middle", class: "name" }, names[0]),
    s("text", { x: 4, y: 14, class: "name" }, names[1]),
    diagonal && s("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(most[0]), y2: y(most[1]) }),
    s("polyline", { class: "line", points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }),
    ...(dots ? points : []).map(([a, b], i) => s("circle", { class: "dot", cx: x(a), cy: y(b), r: size(weights[i]) })),
    ...marks.map(([a, b]) => s("circle", { class: "mark", cx: x(a), cy: y(b), r: 7 })),
  );
}
