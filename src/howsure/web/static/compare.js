// Do two pictures show the same thing?

import * as api from "./api.js";
import { bar, bellCurves } from "./charts.js";
import { announce, digits, h, messageOf, percent, picture as imageOf } from "./dom.js";
import { pictureInput } from "./pictures.js";

/** @type {[Blob | null, Blob | null]} */
const last = [null, null];

/** @type {import("./app.js").View} */
export function compareView(root) {
  const problem = h("p", { class: "problem", role: "alert" });
  const answer = h("div", {});
  let running = new AbortController();
  /** @type {string[]} */
  let urls = [];

  const inputs = ["First picture", "Second picture"].map((label, i) => {
    const shown = imageOf("", "", { hidden: true });
    const chosen = pictureInput({
      label,
      hint: "Choose it, or drop it here.",
      alone: true,
      take: ([picture]) => {
        last[i] = picture ?? null;
        look();
        void ask();
      },
    });
    return { chosen, shown, label };
  });

  function look() {
    for (const url of urls) URL.revokeObjectURL(url);
    urls = [];
    inputs.forEach(({ shown, label }, i) => {
      const picture = last[i];
      shown.hidden = !picture;
      if (!picture) return;
      const url = URL.createObjectURL(picture);
      urls.push(url);
      shown.src = url;
      shown.alt = label;
    });
  }

  async function ask() {
    const [a, b] = last;
    if (!a || !b) return;
    running.abort();
    running = new AbortController();
    const mine = running;
    try {
      const reply = await api.verify(a, b, mine.signal);
      problem.textContent = "";
      answer.replaceChildren(verdict(reply));
      announce(`${reply.answer.words} The probability that they are the same is ${percent(reply.probability)}.`);
    } catch (error) {
      if (mine.signal.aborted) return;
      answer.replaceChildren();
      problem.textContent = messageOf(error);
    }
  }

  /** @param {ClipboardEvent} event */
  const paste = (event) => inputs[last[0] ? 1 : 0]?.chosen.paste(event);
  root.append(
    h("h1", {}, "Are these the same?"),
    h("div", { class: "pair" }, ...inputs.map(({ chosen, shown }) => h("div", {}, chosen.element, shown))),
    problem,
    answer,
  );
  document.addEventListener("paste", paste);
  look();
  void ask();
  return () => {
    running.abort();
    for (const url of urls) URL.revokeObjectURL(url);
    document.removeEventListener("paste", paste);
  };
}

/** @param {import("./api.js").VerifyReply} reply */
function verdict(reply) {
  const { answer, probability, distance, uncertainty } = reply;
  const signs = { match: "=", unknown: "≠", not_sure: "?" };
  return h(
    "article",
    { class: `answer panel ${answer.kind}`, "aria-label": "Answer" },
    h(
      "div",
      { class: "head" },
      h(
        "div",
        {},
        h("h2", {}, h("span", { class: "sign", "aria-hidden": "true" }, signs[answer.kind]), answer.words),
        answer.why && h("p", {}, `${answer.why.charAt(0).toUpperCase()}${answer.why.slice(1)}.`),
        h(
          "dl",
          { class: "probabilities" },
          h("dt", {}, "P(same), where half of all pairs are"),
          h("dd", {}, bar(probability), h("span", {}, percent(probability))),
          h("dt", {}, "Distance"),
          h("dd", {}, digits(distance)),
          h("dt", {}, "Uncertainty of each"),
          h("dd", {}, uncertainty.map(digits).join(" and ")),
        ),
      ),
      bellCurves(reply.bells),
    ),
  );
}
