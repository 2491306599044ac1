// How good the answers are, as calibration found, and whether that still holds.

import * as api from "./api.js";
import { linePlot } from "./charts.js";
import { digits, h, percent } from "./dom.js";

/** @typedef {import("./api.js").Quality} Quality */

/** @type {import("./app.js").View} */
export function qualityView(root) {
  const whole = h("div", {});
  root.append(h("h1", {}, "Quality"), whole);
  let left = false;
  api.quality().then(
    (quality) => {
      if (!left) whole.replaceChildren(...sections(quality));
    },
    (error) => whole.replaceChildren(h("p", { class: "problem", role: "alert" }, String(error.message))),
  );
  return () => {
    left = true;
  };
}

/**
 * @param {Quality} quality
 * @returns {Node[]}
 */
function sections(quality) {
  if (!quality.certificate) {
    return [h("p", {}, "The model has no policy yet, so every answer is “not sure”. Run ", h("code", {}, "howsure calibrate"), ".")];
  }
  return [
    promise(quality.certificate),
    ...changed(quality.stale),
    drift(quality.drift),
    h("div", { class: "figures" }, riskCoverage(quality), unknowns(quality), ...Object.values(quality.honesty).map(reliability)),
  ];
}

/** @param {string[]} stale */
function changed(stale) {
  const how = `The promise was made for another gallery: ${stale.join(", ")}. Calibrate again.`;
  return stale.length ? [h("p", { class: "warning", role: "status" }, how)] : [];
}

/** @param {import("./api.js").Certificate} c */
function promise(c) {
  return h(
    "section",
    { "aria-label": "What is promised" },
    h(
      "p",
      { class: "lead" },
      `At most ${percent(c.error_bound)} of the matches are wrong, with confidence ${percent(c.confidence)}, `,
      `for queries like the ${c.n} that tested it. ${percent(c.match_coverage)} of them got a match, ${percent(c.unknown_coverage)} were called unknown.`,
    ),
    h(
      "p",
      {},
      c.false_unknown
        ? `At most ${percent(c.false_unknown.bound)} of the queries that are in the gallery are called unknown, on average. `
        : "Nothing is called unknown: there were too few queries that are in the gallery. ",
      c.false_match
        ? `At most ${percent(c.false_match.bound)} of those that are not get a match, with confidence ${percent(c.confidence)}.`
        : c.false_match_rate === null
          ? ""
          : `${percent(c.false_match_rate)} of those that are not got a match; nothing is promised about them.`,
    ),
    h(
      "p",
      { class: "soft" },
      `Tolerated error among matches ${percent(c.max_error)}; ${percent(c.unknown_rate)} of the queries were unknown; `,
      `gallery of ${c.gallery} items, ${c.identities} identities; made ${c.made}.`,
      c.audit && ` Tested on ${c.audit.used} of ${c.audit.drawn} queries that were drawn by lot in use.`,
    ),
  );
}

/** @param {import("./api.js").Drift | null} drift */
function drift(drift) {
  if (!drift || !drift.watches.length) {
    return h("p", { class: "soft" }, "This model's uncertainty is always the same, so it cannot tell whether pictures have changed.");
  }
  const message = drift.drifted
    ? "Pictures are no longer like those of calibration: the promise does not cover them."
    : "No sign that pictures have changed since calibration.";
  const seen = ` Seen since the server started: ${drift.seen}. Evidence ${digits(drift.evidence)}; 100 would be an alarm.`;
  return h("p", { class: drift.drifted ? "warning" : "soft" }, message, seen);
}

/** @param {Quality} quality */
function riskCoverage(quality) {
  const points = quality.risk_coverage;
  if (!points.length) return h("p", {});
  const most = 0.04 * Math.ceil(Math.max(0.04, ...points.map((point) => point.risk)) / 0.04); // four round ticks
  const result = h("output", {});
  const figure = h("div", {});
  const input = h("input", { type: "range", min: 0, max: Math.ceil(most * 1000), step: 1, value: Math.round((quality.certificate?.max_error ?? 0.01) * 1000) });
  const draw = () => {
    const allowed = Number(input.value) / 1000;
    const fine = points.filter((point) => point.risk <= allowed);
    const chosen = fine[fine.length - 1];
    const words = chosen
      ? `Answer from a probability of about ${percent(chosen.threshold)}: ${percent(chosen.coverage)} of the queries get an answer, ${percent(chosen.risk)} of the answers were wrong.`
      : "No bin of the held-out queries was that good.";
    result.textContent = words;
    input.setAttribute("aria-valuetext", `${percent(allowed)}. ${words}`);
    figure.replaceChildren(
      linePlot({
        points: points.map((point) => [point.coverage, point.risk]),
        marks: chosen ? [[chosen.coverage, chosen.risk]] : [],
        names: ["share that is answered", "wrong among them"],
        most: [1, most],
        label: `Risk against coverage. ${words}`,
      }),
    );
  };
  input.addEventListener("input", draw);
  draw();
  return h(
    "section",
    { class: "panel", "aria-labelledby": "trade" },
    h("h2", { id: "trade" }, "What an error rate costs"),
    h("label", {}, "Tolerated error", input),
    h("p", {}, result),
    figure,
    h("p", { class: "soft" }, "What happened on held-out queries, the surest first; no promise. howsure calibrate makes one."),
  );
}

/** @param {Quality} quality */
function unknowns({ unknown_roc: roc, unknown_roc_why: why }) {
  const title = h("h2", { id: "unknowns" }, "Does it notice unknown identities?");
  if (!roc) {
    return h("section", { class: "panel", "aria-labelledby": "unknowns" }, title, h("p", { class: "soft" }, `Nobody can tell: ${why}.`));
  }
  const words = `An unknown picture scores higher than a known one in ${percent(roc.auroc)} of the pairs (AUROC).`;
  return h(
    "section",
    { class: "panel", "aria-labelledby": "unknowns" },
    title,
    linePlot({
      points: roc.false_positive.map((share, i) => [share, roc.true_positive[i] ?? 0]),
      diagonal: true,
      dots: false,
      names: ["known, and called unknown", "unknown, and called so"],
      most: [1, 1],
      label: `ROC of unknown detection. ${words}`,
    }),
    h("p", { class: "soft" }, `${words} Each item was asked about twice: with the others of its label in the gallery, and without.`),
  );
}

/** @param {import("./api.js").Honesty} report */
function reliability(report) {
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, `Does “${report.event}” mean what it says?`),
    linePlot({
      points: report.reliability.map((bin) => [bin.probability, bin.happened]),
      weights: report.reliability.map((bin) => bin.cases),
      diagonal: true,
      names: ["predicted probability", "how often it happened"],
      most: [1, 1],
      label: `Reliability on ${report.cases} cases; expected calibration error ${percent(report.ece)}`,
    }),
    h("p", { class: "soft" }, `${report.cases.toLocaleString("en")} cases, the larger a dot the more of them; expected calibration error ${percent(report.ece)}, Brier score ${digits(report.brier)}.`),
    h(
      "details",
      {},
      h("summary", {}, "As a table"),
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ...["predicted", "happened", "cases"].map((name) => h("th", { scope: "col" }, name)))),
        h(
          "tbody",
          {},
          ...report.reliability.map((bin) =>
            h("tr", {}, h("td", {}, percent(bin.probability)), h("td", {}, percent(bin.happened)), h("td", {}, bin.cases)),
          ),
        ),
      ),
    ),
  );
}
