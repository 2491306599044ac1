// Removing an item, and bringing it back.

import * as api from "./api.js";
import { h, messageOf } from "./dom.js";

/**
 * A line that says what was removed and offers to undo it. `changed` is called after either.
 * @param {() => void} changed
 */
export function removals(changed) {
  const element = h("p", { class: "undo", role: "status" });

  function notify() {
    window.dispatchEvent(new Event("gallery-changed"));
    changed();
  }

  /**
   * @param {string} id
   * @param {string} token
   */
  async function bringBack(id, token) {
    try {
      await api.undo(token);
      element.replaceChildren(`${id} is back.`);
      notify();
    } catch (error) {
      element.replaceChildren(messageOf(error));
    }
  }

  /** @param {string} id */
  async function remove(id) {
    try {
      const { undo } = await api.remove(id);
      const button = h("button", { type: "button", click: () => void bringBack(id, undo) }, "Undo");
      element.replaceChildren(`${id} is removed. `, button);
      button.focus();
      notify();
    } catch (error) {
      element.replaceChildren(messageOf(error));
    }
  }

  return { element, remove };
}

/**
 * @param {string} id
 * @param {(id: string) => void} remove
 */
export function removeButton(id, remove) {
  const button = h("button", { type: "button", class: "remove", "aria-label": `Remove ${id}`, title: "Remove" }, "×");
  button.addEventListener("click", () => {
    button.disabled = true;
    remove(id);
  });
  return button;
}
