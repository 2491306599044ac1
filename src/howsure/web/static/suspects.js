// What looks wrong in the gallery: the same picture twice, and labels that the neighbours contradict.

import * as api from "./api.js";
import { h, messageOf, percent, picture } from "./dom.js";
import { removals, removeButton } from "./removal.js";

/** @type {import("./app.js").View} */
export function suspectsView(root) {
  const whole = h("div", { "aria-busy": "true" }, h("p", { class: "soft" }, "Comparing every picture with its neighbours…"));
  const removal = removals(() => void look());
  const running = new AbortController();

  async function look() {
    try {
      whole.replaceChildren(...sections(await api.suspects(running.signal), removal.remove));
    } catch (error) {
      if (running.signal.aborted) return;
      whole.replaceChildren(h("p", { class: "problem", role: "alert" }, messageOf(error)));
    } finally {
      whole.removeAttribute("aria-busy");
    }
  }

  root.append(removal.element, whole);
  void look();
  return () => running.abort();
}

/**
 * @param {api.Suspects} suspects
 * @param {(id: string) => void} remove
 * @returns {Node[]}
 */
function sections({ duplicates, label_errors: errors }, remove) {
  return [
    h("h2", {}, "Labels that the neighbours contradict"),
    errors.length
      ? h("ul", { class: "suspects" }, ...errors.map((error) => contradicted(error, remove)))
      : h("p", { class: "soft" }, "None."),
    h("h2", {}, "Pictures that are in it twice"),
    duplicates.length
      ? h("ul", { class: "suspects" }, ...duplicates.map((twins) => pair(twins, remove)))
      : h("p", { class: "soft" }, "None."),
  ];
}

/**
 * @param {api.LabelError} error
 * @param {(id: string) => void} remove
 */
function contradicted(error, remove) {
  return h(
    "li",
    { class: "panel" },
    shown(error.id, remove),
    h(
      "p",
      {},
      "Labelled ",
      h("strong", {}, error.label),
      ", looks like ",
      h("strong", {}, error.suggested),
      h("span", { class: "soft" }, ` (${percent(error.probability)})`),
    ),
  );
}

/**
 * @param {api.Twins} twins
 * @param {(id: string) => void} remove
 */
function pair({ a, b, probability }, remove) {
  const text = probability !== null && h("p", {}, `P(same) ${percent(probability)}`);
  return h("li", { class: "panel" }, shown(a, remove), shown(b, remove), text);
}

/**
 * @param {string} id
 * @param {(id: string) => void} remove
 */
function shown(id, remove) {
  return h(
    "figure",
    {},
    picture(api.thumbnail(id), id, { loading: "lazy", width: 96, height: 96 }),
    h("figcaption", { class: "id", title: id }, id),
    removeButton(id, remove),
  );
}
