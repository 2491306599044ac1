// What in the gallery is this, if anything?

import * as api from "./api.js";
import { bar, uncertaintyStrip } from "./charts.js";
import { cropped } from "./crop.js";
import { announce, h, messageOf, patient, percent, picture } from "./dom.js";
import { pictureInput, tooMuch } from "./pictures.js";

/** @typedef {import("./api.js").Result} Result */
/** @typedef {import("./api.js").Harm & {crop: number}} Harm */

const HARMS = /** @type {const} */ ([
  ["crop", "Crop"],
  ["blur", "Blur"],
  ["occlusion", "Occlusion"],
  ["noise", "Noise"],
]);
const SIGNS = { match: "✓", unknown: "✕", not_sure: "?" };

/** What was asked last stays when another view is looked at. */
const last = {
  /** @type {Blob[]} */ pictures: [],
  /** @type {Harm} */ harm: { crop: 0, blur: 0, occlusion: 0, noise: 0 },
  /** @type {Result[]} */ before: [], // as the pictures are, before harm
  drifted: false,
  /** @type {string[]} */ stale: [], // how the gallery differs from the one that was calibrated
};

/** @type {import("./app.js").View} */
export function searchView(root) {
  const { whole: sliders, reset } = harmSliders(() => later());
  const answers = h("div", { class: "answers" });
  const problem = h("p", { class: "problem", role: "alert" });
  const drift = h("p", { class: "warning", role: "status" });
  const kept = h(
    "p",
    { class: "soft", hidden: true },
    "Yes and No are kept next to the gallery: ",
    h("a", { href: api.FEEDBACK, download: "feedback.csv" }, "download them as pairs"),
    ".",
  );
  let running = new AbortController();

  async function ask() {
    if (!last.pictures.length) return;
    running.abort();
    running = new AbortController();
    const mine = running;
    answers.setAttribute("aria-busy", "true");
    try {
      const found = await api.gallery();
      const refused = tooMuch(last.pictures, found);
      if (refused) throw new Error(refused);
      if (!last.before.length) {
        const first = await api.search(last.pictures, NOTHING, { trial: false, signal: mine.signal });
        last.before = first.results;
        last.drifted = first.drifted === true;
        last.stale = first.stale;
      }
      const harmed = Object.values(last.harm).some((severity) => severity > 0);
      const results = harmed ? (await searchHarmed(mine.signal)).results : last.before;
      problem.textContent = "";
      drift.textContent = [
        last.drifted ? "Lately, pictures are not like those the model was calibrated on: its promise does not cover them." : "",
        last.stale.length ? `The promise was made for another gallery: ${last.stale.join(", ")}. Calibrate again.` : "",
      ].join(" ").trim();
      answers.replaceChildren(
        ...results.map((result, i) => answerCard(result, harmed ? (last.before[i] ?? null) : null, found)),
      );
      sliders.hidden = kept.hidden = false;
      announce(results.map(spoken).join(" "));
    } catch (error) {
      if (mine.signal.aborted) return;
      last.before = [];
      answers.replaceChildren();
      sliders.hidden = kept.hidden = true;
      problem.textContent = messageOf(error);
    } finally {
      if (mine === running) answers.removeAttribute("aria-busy");
    }
  }

  const later = patient(() => void ask(), 150);
  const hint = h("span", {}, "or drop it here, or paste it. Several are fine.");
  const chosen = pictureInput({
    label: "Choose a picture",
    hint,
    take: (pictures) => {
      last.pictures = pictures;
      last.before = [];
      reset();
      void ask();
    },
  });
  root.append(h("h1", {}, "What is this?"), chosen.element, problem, drift, sliders, answers, kept);
  document.addEventListener("paste", chosen.paste);
  void ask();
  void api.gallery().then(
    (limits) => (hint.textContent = `or drop it here, or paste it. Up to ${limits.pictures} at once.`),
    () => {}, // app.js shows that the server is gone
  );
  return () => {
    running.abort();
    document.removeEventListener("paste", chosen.paste);
  };
}

const NOTHING = { blur: 0, occlusion: 0, noise: 0 };

/** @param {AbortSignal} signal */
async function searchHarmed(signal) {
  const { crop, ...rest } = last.harm;
  const pictures = await Promise.all(last.pictures.map((picture) => cropped(picture, crop)));
  return api.search(pictures, rest, { trial: true, signal });
}

/** @param {() => void} changed */
function harmSliders(changed) {
  const rows = HARMS.map(([harm, title]) => {
    const level = h("output", {});
    const input = h("input", { type: "range", min: 0, max: 5, step: 1, name: harm });
    const set = (/** @type {number} */ severity) => {
      last.harm[harm] = severity;
      input.value = String(severity);
      level.textContent = levelOf(severity);
      input.setAttribute("aria-valuetext", levelOf(severity));
    };
    input.addEventListener("input", () => {
      set(Number(input.value));
      changed();
    });
    set(last.harm[harm]);
    return { row: h("label", {}, h("span", {}, title), input, level), set };
  });
  const whole = h(
    "fieldset",
    { class: "panel harms", hidden: true },
    h("legend", {}, "Make it worse, and see certainty fall"),
    ...rows.map(({ row }) => row),
  );
  return { whole, reset: () => rows.forEach(({ set }) => set(0)) };
}

/** @param {number} severity */
function levelOf(severity) {
  return severity === 0 ? "none" : `${severity} of 5`;
}

/** @param {Result} result */
function spoken(result) {
  const { words, why } = result.answer;
  return `${result.name}: ${words}${why ? ` Because ${why}.` : ""}`;
}

/**
 * @param {Result} result
 * @param {Result | null} before
 * @param {import("./api.js").Gallery} gallery
 */
function answerCard(result, before, gallery) {
  const { answer } = result;
  const shape = gallery.uncertainty;
  return h(
    "article",
    { class: `answer panel ${answer.kind}`, "aria-label": result.name },
    h(
      "div",
      { class: "head" },
      result.picture && picture(result.picture, `The picture that was looked at, ${result.name}`),
      h(
        "div",
        {},
        h("p", { class: "soft name" }, result.name),
        h("h2", {}, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[answer.kind]), answer.words),
        answer.why && h("p", {}, sentence(answer.why)),
        probabilities(result, before),
      ),
      shape
        ? uncertaintyStrip(shape, {
            now: result.uncertainty,
            before: before?.uncertainty ?? null,
            reference: gallery.usual,
            rank: result.rank,
            split: result.split,
          })
        : h("p", { class: "soft flat" }, "This model gives every picture the same uncertainty; howsure laplace adds one to a model that is trained."),
    ),
    result.matches.length > 0 && h("h3", {}, "Nearest in the gallery, and P(same) of each"),
    h("ol", { class: "matches" }, ...result.matches.map((match) => matchRow(match, result.query))),
  );
}

/**
 * @param {Result} result
 * @param {Result | null} before
 */
function probabilities(result, before) {
  const { probability, none } = result.answer;
  if (probability === null) return null;
  const was = before?.answer.probability;
  const rows = [
    ["The best match is right", probability, was == null ? "" : `before: ${percent(was)}`],
    ...(none === null ? [] : [["Nothing in the gallery is it", none, ""]]),
  ];
  return h(
    "dl",
    { class: "probabilities" },
    ...rows.flatMap(([name, p, note]) => [
      h("dt", {}, name),
      h("dd", {}, bar(Number(p)), h("span", {}, percent(Number(p))), note && h("span", { class: "soft" }, note)),
    ]),
  );
}

/**
 * @param {import("./api.js").Match} match
 * @param {string | null} query
 */
function matchRow(match, query) {
  const name = match.label ?? match.id;
  return h(
    "li",
    {},
    picture(api.thumbnail(match.id), "", { loading: "lazy", width: 56, height: 56 }),
    h(
      "div",
      {},
      h("strong", {}, name),
      match.probability !== null && h("span", { class: "number" }, percent(match.probability)),
      match.probability !== null && bar(match.probability),
      h("span", { class: "soft id", title: match.id }, match.id),
    ),
    query !== null && verdictButtons(query, match.id, name),
  );
}

/**
 * @param {string} query
 * @param {string} item
 * @param {string} name
 */
function verdictButtons(query, item, name) {
  /** @type {HTMLButtonElement[]} */
  const buttons = [true, false].map((same) => {
    const title = same ? `Yes, it is the same as ${name}` : `No, it is not the same as ${name}`;
    const button = h("button", { type: "button", "aria-pressed": "false", "aria-label": title, title }, same ? "Yes" : "No");
    button.addEventListener("click", async () => {
      try {
        await api.feedback(query, item, same);
        for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
        announce("Saved as feedback.");
      } catch (error) {
        announce(messageOf(error));
        button.textContent = "failed";
      }
    });
    return button;
  });
  return h("div", { class: "verdict", role: "group", "aria-label": `Is it the same as ${name}?` }, ...buttons);
}

/** @param {string} text */
function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
