// A map of the embeddings in a plane, on a canvas, and the same as a table.

import * as api from "./api.js";
import { digits, h, messageOf, percent, picture, s } from "./dom.js";
import { ERRORS, LABELS, Plot, RAMP } from "./plot.js";

const SHOWN = 40; // items of a selection that are listed

/** @type {import("./plot.js").Colouring[]} */
const COLOURINGS = ["label", "uncertainty", "error"];

/** @type {import("./app.js").View} */
export function mapView(root) {
  const problem = h("p", { class: "problem", role: "alert" });
  const whole = h("div", {});
  /** @type {Plot | null} */
  let plot = null;
  let left = false;
  root.append(h("h1", {}, "Map"), problem, whole);
  api.plane().then(
    (plane) => {
      if (left) return;
      if (!plane.ids.length) {
        whole.append(h("p", {}, "The gallery is empty."));
        return;
      }
      plot = draw(whole, plane);
    },
    (error) => {
      problem.textContent = error.message;
    },
  );
  return () => {
    left = true;
    plot?.close();
  };
}

/**
 * @param {HTMLElement} whole
 * @param {api.Plane} plane
 */
function draw(whole, plane) {
  const canvas = h("canvas", {
    tabindex: 0,
    role: "img",
    "aria-label": `A map of ${plane.ids.length} items. Arrow keys move it, plus and minus zoom, 0 shows all. The tables below say the same.`,
  });
  const hint = h("div", { class: "hint", hidden: true });
  const colour = h("select", { name: "colour" }, ...COLOURINGS.map((by) => h("option", { value: by }, by)));
  const key = h("ul", { class: "key" });
  const chosen = h("div", {});
  const plot = new Plot(canvas, plane, {
    hover: (item, x, y) => showHint(hint, plane, item, x, y),
    select: (items) => chosen.replaceChildren(...selection(plane, items)),
  });
  const explain = (/** @type {import("./plot.js").Colouring} */ by) =>
    key.replaceChildren(...keys(plane, by).map(([shade, name]) => h("li", {}, swatch(shade), name)));
  colour.addEventListener("change", async () => {
    const by = COLOURINGS.find((one) => one === colour.value) ?? "label";
    // Of a large gallery, errors are known only after a while.
    if (by === "error" && !plane.error) Object.assign(plane, await errorsOf(plane));
    plot.colourBy(by);
    explain(by);
  });
  whole.append(
    h("div", { class: "filters" }, h("label", {}, "Colour by", colour), key),
    h("div", { class: "plane" }, canvas, hint),
    h(
      "p",
      { class: "soft" },
      plane.xx.some((variance) => variance > 0)
        ? "Ellipses reach one standard deviation. "
        : "This model gives every picture a point, without a variance. ",
      "Drag to move, scroll to zoom, shift and drag to select. ",
      `The plane holds ${percent(plane.explained)} of the variance.`,
    ),
    chosen,
    summary(plane),
  );
  explain("label");
  plot.fit();
  return plot;
}

/**
 * What is known by now about errors; nothing if the gallery has changed meanwhile.
 * @param {api.Plane} plane
 * @returns {Promise<Partial<api.Plane>>}
 */
async function errorsOf(plane) {
  try {
    const { ids, error, error_why } = await api.plane();
    return ids.length === plane.ids.length ? { error, error_why } : { error_why: "the gallery has changed: load the page again" };
  } catch (problem) {
    return { error_why: messageOf(problem) };
  }
}

/**
 * What the colours stand for.
 * @param {api.Plane} plane
 * @param {import("./plot.js").Colouring} by
 * @returns {[string, string][]}
 */
function keys(plane, by) {
  if (by === "uncertainty") return RAMP.map((shade, i) => [shade, i === 0 ? "certain" : i === RAMP.length - 1 ? "uncertain" : ""]);
  if (by === "error") {
    if (!plane.error) return [[ERRORS[0] ?? "", `not known: ${plane.error_why}`]];
    const wrong = plane.error.reduce((sum, one) => sum + one, 0);
    return [
      [ERRORS[0] ?? "", "nearest other picture has the same label"],
      [ERRORS[1] ?? "", `has another: ${wrong.toLocaleString("en")} of ${plane.ids.length.toLocaleString("en")}`],
    ];
  }
  const names = plane.labels.slice(0, LABELS.length).map((name, i) => /** @type {[string, string]} */ ([LABELS[i] ?? "", name]));
  return plane.labels.length > LABELS.length ? [...names, ["none", "and others, in the same colours"]] : names;
}

/** @param {string} shade */
function swatch(shade) {
  return s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, s("circle", { cx: 6, cy: 6, r: 6, fill: shade }));
}

/**
 * @param {HTMLElement} hint
 * @param {api.Plane} plane
 * @param {number | null} item
 * @param {number} x
 * @param {number} y
 */
function showHint(hint, plane, item, x, y) {
  hint.hidden = item === null;
  if (item === null) return;
  const id = plane.ids[item] ?? "";
  if (hint.dataset["id"] !== id) {
    hint.dataset["id"] = id;
    hint.replaceChildren(
      picture(api.thumbnail(id), "", { width: 72, height: 72 }),
      h("strong", {}, labelOf(plane, item) ?? "no label"),
      h("span", { class: "soft" }, `uncertainty ${digits(plane.uncertainty[item] ?? 0)}`),
    );
  }
  hint.style.left = `${x + 14}px`;
  hint.style.top = `${y + 14}px`;
}

/**
 * @param {api.Plane} plane
 * @param {number} item
 */
function labelOf(plane, item) {
  return plane.labels[plane.label[item] ?? -1] ?? null;
}

/**
 * @param {api.Plane} plane
 * @param {number[]} items
 * @returns {Node[]}
 */
function selection(plane, items) {
  const most = [...items].sort((a, b) => (plane.uncertainty[b] ?? 0) - (plane.uncertainty[a] ?? 0)).slice(0, SHOWN);
  const left = items.length > SHOWN ? `, the ${SHOWN} least certain of them` : "";
  return [
    h("h2", { role: "status" }, `${items.length.toLocaleString("en")} selected${left}`),
    h(
      "ul",
      { class: "items small" },
      ...most.map((item) => {
        const id = plane.ids[item] ?? "";
        const name = labelOf(plane, item) ?? "no label";
        return h("li", {}, picture(api.thumbnail(id), `${name}, ${id}`, { loading: "lazy" }), h("strong", {}, name));
      }),
    ),
  ];
}

/**
 * The same in words and numbers: for each label how many, how uncertain, and which label lies nearest.
 * @param {api.Plane} plane
 */
function summary(plane) {
  /** @type {Map<number, number[]>} */
  const groups = new Map();
  plane.label.forEach((code, item) => {
    const group = groups.get(code);
    if (group) group.push(item);
    else groups.set(code, [item]);
  });
  const rows = [...groups].map(([code, items]) => {
    const mean = (/** @type {number[]} */ values) => items.reduce((sum, item) => sum + (values[item] ?? 0), 0) / items.length;
    return {
      name: plane.labels[code] ?? "no label",
      count: items.length,
      x: mean(plane.x),
      y: mean(plane.y),
      uncertainty: mean(plane.uncertainty),
      wrong: plane.error && mean(plane.error),
    };
  });
  rows.sort((a, b) => b.uncertainty - a.uncertainty);
  const nearest = (/** @type {{name: string, x: number, y: number}} */ row) => {
    const others = rows.filter((other) => other !== row);
    const gap = (/** @type {{x: number, y: number}} */ other) => Math.hypot(other.x - row.x, other.y - row.y);
    return others.sort((a, b) => gap(a) - gap(b))[0]?.name ?? "none";
  };
  const titles = ["label", "items", "mean uncertainty", "nearest label", ...(plane.error ? ["nearest picture differs"] : [])];
  return h(
    "details",
    { class: "panel" },
    h("summary", {}, "As a table"),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ...titles.map((name) => h("th", { scope: "col" }, name)))),
        h(
          "tbody",
          {},
          ...rows.slice(0, 200).map((row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, row.name),
              h("td", {}, row.count),
              h("td", {}, digits(row.uncertainty)),
              h("td", {}, nearest(row)),
              row.wrong !== null && h("td", {}, percent(row.wrong)),
            ),
          ),
        ),
      ),
    ),
  );
}
