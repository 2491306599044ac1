// The pictures by which an identity is known best: keep these when not all can be kept.

import * as api from "./api.js";
import { h, messageOf, patient, picture } from "./dom.js";

const COUNT = 5;

/** @type {import("./app.js").View} */
export function bestView(root, query) {
  const label = h("select", { name: "label" });
  const count = h("input", { name: "count", type: "number", min: 1, max: 50, value: Number(query.get("count")) || COUNT });
  const problem = h("p", { class: "problem", role: "alert" });
  const list = h("ol", { class: "items" });
  let running = new AbortController();

  async function look() {
    if (!label.value || !count.checkValidity()) return;
    running.abort();
    running = new AbortController();
    const mine = running;
    const fields = new URLSearchParams({ look: "best", label: label.value, count: count.value });
    history.replaceState(null, "", `#/gallery?${fields}`);
    try {
      const { ids, why } = await api.best(label.value, Number(count.value), mine.signal);
      problem.textContent = "";
      list.replaceChildren(...ids.map((id, i) => card(id, why[i] ?? "")));
    } catch (error) {
      if (!mine.signal.aborted) problem.textContent = messageOf(error);
    }
  }

  async function begin() {
    const found = await api.gallery();
    label.append(...found.labels.map((name) => h("option", { value: name }, name)));
    label.value = query.get("label") ?? found.labels[0] ?? "";
    if (!found.labels.length) problem.textContent = "No item of this gallery has a label.";
    await look();
  }

  label.addEventListener("change", () => void look());
  count.addEventListener("input", patient(() => void look(), 250));
  root.append(
    h("div", { class: "filters" }, h("label", {}, "Label", label), h("label", {}, "How many", count)),
    problem,
    list,
  );
  begin().catch((error) => {
    problem.textContent = error.message;
  });
  return () => running.abort();
}

/**
 * @param {string} id
 * @param {string} why
 */
function card(id, why) {
  return h(
    "li",
    {},
    picture(api.thumbnail(id), id, { loading: "lazy", width: 96, height: 96 }),
    h("span", { class: "soft id", title: id }, id),
    h("span", { class: "soft" }, why),
  );
}
