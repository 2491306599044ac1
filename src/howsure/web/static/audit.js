// Queries that were drawn by lot: what do they show? The verdicts are for calibration.

import * as api from "./api.js";
import { announce, h, messageOf, picture } from "./dom.js";

const SHOWN = 20; // at a time; they are meant to be labelled in order

/** @type {import("./app.js").View} */
export function auditView(root) {
  const whole = h("div", { "aria-busy": "true" });
  const problem = h("p", { class: "problem", role: "alert" });
  let left = false;

  /** @param {boolean} again whether somebody is at it, who wants to go on with the next one */
  async function look(again) {
    try {
      const found = await api.audit();
      if (left) return;
      whole.replaceChildren(...sections(found, judge));
      problem.textContent = "";
      if (again) (whole.querySelector("input") ?? root).focus();
    } catch (error) {
      problem.textContent = messageOf(error);
    } finally {
      whole.removeAttribute("aria-busy");
    }
  }

  /**
   * @param {string} id
   * @param {api.Verdict} verdict
   */
  async function judge(id, verdict) {
    try {
      await api.judge(id, verdict);
      announce(`Query ${id} is saved.`);
      await look(true);
    } catch (error) {
      problem.textContent = messageOf(error);
    }
  }

  root.append(h("h1", {}, "Audit"), problem, whole);
  void look(false);
  return () => {
    left = true;
  };
}

/**
 * @param {api.Audit} audit
 * @param {(id: string, verdict: api.Verdict) => void} judge
 * @returns {Node[]}
 */
function sections({ drawn, waiting }, judge) {
  if (!drawn) return [h("p", {}, "Nothing was drawn yet. ", h("code", {}, "howsure serve GALLERY --audit 0.05"), " draws one query in twenty.")];
  return [
    h(
      "p",
      {},
      `${waiting.length} of ${drawn} drawn queries wait for a verdict. Label them in order: calibration uses them up to `,
      "the first that has none, so leave no hard one out.",
    ),
    h("ul", { class: "suspects" }, ...waiting.slice(0, SHOWN).map((query) => row(query, judge))),
  ];
}

/**
 * @param {api.Waiting} query
 * @param {(id: string, verdict: api.Verdict) => void} judge
 */
function row({ id, picture: shown }, judge) {
  const input = h("input", { name: "label", required: true, maxlength: 256, autocomplete: "off", id: `shows-${id}` });
  const form = h("form", {}, h("label", { for: `shows-${id}` }, `Query ${id} shows`), input, h("button", {}, "Save"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    judge(id, { label: input.value });
  });
  /** @type {(words: string, verdict: api.Verdict) => Node} */
  const button = (words, verdict) =>
    h("button", { type: "button", "aria-label": `Query ${id}: ${words}`, click: () => judge(id, verdict) }, words);
  return h(
    "li",
    { class: "panel" },
    shown ? picture(api.auditPicture(id), `Query ${id}`, { width: 96, height: 96 }) : h("p", { class: "soft" }, "No picture was kept."),
    form,
    button("Not in the gallery", { unknown: true }),
    button("Nobody can tell", { unclear: true }),
  );
}
