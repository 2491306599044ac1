// Adding pictures, few or many, with progress as each reaches the disk.

import * as api from "./api.js";
import { announce, h, messageOf } from "./dom.js";
import { megabytes, pictureInput, sizeOf } from "./pictures.js";

/** @param {() => void} changed */
export function addForm(changed) {
  const label = h("input", { name: "new-label", maxlength: 256, placeholder: "what they show" });
  const progress = h("progress", { "aria-label": "Pictures that were added" });
  const status = h("p", {});
  const refused = h("ul", { class: "problem" });
  const state = h("div", { hidden: true }, progress, status, refused);

  /** @param {Blob[]} pictures */
  async function add(pictures) {
    let [done, added] = [0, 0];
    const update = () => {
      progress.value = done;
      status.textContent = `${done} of ${pictures.length}, ${added} added`;
    };
    progress.max = pictures.length;
    refused.replaceChildren();
    state.hidden = false;
    update();
    try {
      const limits = await api.gallery();
      const fit = pictures.filter((picture) => sizeOf(picture) <= limits.upload);
      for (const picture of pictures) if (!fit.includes(picture)) refused.append(h("li", {}, tooLarge(picture, limits)));
      done = pictures.length - fit.length;
      update();
      for (const part of parts(fit, limits)) {
        await api.addAll(part, label.value.trim(), (step) => {
          done += 1;
          if (step.problem) refused.append(h("li", {}, step.problem));
          else added += 1;
          update();
        });
      }
      status.textContent = `Added ${added} of ${pictures.length}. They are on disk.`;
    } catch (error) {
      status.textContent = `Added ${added} of ${pictures.length}, then it stopped.`;
      refused.append(h("li", {}, messageOf(error)));
    }
    announce(status.textContent);
    if (!added) return;
    window.dispatchEvent(new Event("gallery-changed"));
    changed();
  }

  const chosen = pictureInput({
    label: "Choose pictures",
    hint: "or drop them here. Only their pixels are kept.",
    take: (pictures) => void add(pictures),
  });
  const limit = h("p", { class: "soft" });
  const showLimit = async () => {
    const { bulk, upload } = await api.gallery();
    limit.textContent = `${bulk.toLocaleString("en")} pictures or ${megabytes(upload)} go at once; what is more goes after them.`;
  };
  const form = h("details", { class: "panel" }, h("summary", {}, "Add pictures"), h("label", {}, "Label", label));
  form.append(chosen.element, limit, state);
  form.addEventListener("toggle", () => void showLimit().catch(() => {})); // add() shows the same problem
  return form;
}

/**
 * @param {Blob} picture
 * @param {api.Gallery} limits
 */
function tooLarge(picture, limits) {
  const name = picture instanceof File ? picture.name : "A picture";
  return `${name} has ${megabytes(picture.size)} and was not sent; the server takes ${megabytes(limits.upload)}.`;
}

/**
 * As many pictures at a time as a request may hold.
 * @param {Blob[]} pictures
 * @param {api.Gallery} limits
 */
function parts(pictures, limits) {
  /** @type {Blob[][]} */
  const all = [];
  let bytes = Infinity;
  for (const picture of pictures) {
    const size = sizeOf(picture);
    const current = all[all.length - 1];
    if (current && current.length < limits.bulk && bytes + size <= limits.upload) {
      current.push(picture);
      bytes += size;
    } else {
      all.push([picture]);
      bytes = size;
    }
  }
  return all;
}
