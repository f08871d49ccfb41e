// A call that waits for a person: all of what it would run with, and what may be said to that.

import { h, setText } from "./dom.js";
import { EditForm } from "./edit-form.js";
import { difference, inOrderOf, isJson, layOut, shownJson } from "./exact-json.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */

const LONG = 12; // lines, from which on the rest has to be opened
const LONG_TEXT = 1_200; // characters, likewise

/** Something to be read to its end; says when that has been on the screen. */
class Reading {
  /** @param {(Node | string)[]} shown @param {string} text  of what is shown @param {string} label @param {() => void} onRead */
  constructor(shown, text, label, onRead) {
    const count = text.split("\n").length;
    this.isRead = false;
    this.end = h("span", { class: "reading-end" });
    const box = this.box = h("div", { class: "reading-text", tabindex: "0", role: "region", "aria-label": label }, h("pre", {}, h("code", {}, ...shown)), this.end);
    const open = h("button", { type: "button", class: "button is-quiet", onclick: () => (this.element.classList.remove("is-long"), open.remove(), box.focus()) },
      count > 1 ? `Show all ${count} lines` : "Show all of it");
    const isLong = count > LONG || text.length > LONG_TEXT;
    this.element = h("div", { class: `reading${isLong ? " is-long" : ""}` }, box, ...(isLong ? [open] : []));
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      this.isRead = true;
      onRead();
    });
    watch.observe(this.end);
  }
}

export class Question {
  /** @type {Reading | null} */
  #reading = null;
  /** What to approve it with; null: as the model asked. @type {string | null} */
  #edited = null;

  /** @param {CallState} call @param {string} name  no other call's on the page @param {import("./cards.js").Acts} acts */
  constructor(call, name, acts) {
    this.call = call;
    this.name = name;
    this.acts = acts;
    this.asked = call.questionText ?? "";
    this.text = h("p", { class: "question-text" });
    this.stage = h("div", { class: "question-stage" });
    this.hint = h("p", { class: "note", hidden: true }, "Read the arguments to their end, then you can approve.");
    this.approve = h("button", { type: "button", class: "button is-yes", onclick: () => this.#approve() });
    this.edit = h("button", { type: "button", class: "button", onclick: () => this.#openForm() });
    this.deny = h("button", { type: "button", class: "button is-no", "aria-label": `Deny ${name}`, onclick: () => this.#act(() => acts.deny(call, this.reason.value)) }, "Deny");
    this.reason = h("input", { class: "reason", type: "text", placeholder: "Reason, if you deny", maxlength: "300", "aria-label": `Reason for denying ${name}` });
    this.failure = h("p", { class: "note is-failure", role: "alert", hidden: true });
    this.row = h("div", { class: "question-row" }, this.approve, this.edit, this.deny, this.reason);
    this.element = h("div", { class: "question", role: "group", "aria-label": `Approval of ${name}` }, this.text, this.stage, this.hint, this.row, this.failure);
    this.#show(null);
  }

  /** Show what would run. @param {string | null} edited */
  #show(edited) {
    this.#edited = edited;
    this.form = null;
    this.row.hidden = false;
    const before = layOut(this.asked);
    if (!isJson(this.asked)) {
      setText(this.text, "This call waits for your approval, but its arguments have not arrived whole. Load the page again to see them.");
      this.stage.replaceChildren();
      this.#reading = null;
      this.edit.hidden = true;
    } else {
      setText(this.text, edited === null ? "This call waits for your approval. It would run with exactly this:" : "It would run with exactly this instead:");
      const changes = edited === null ? [] : difference(before, layOut(edited));
      const shown = edited === null ? shownJson(before) : changes.map(changedLine);
      this.#reading = new Reading(shown, edited === null ? before : changes.map(({ line }) => line).join("\n"), `Arguments of ${this.name}`, () => this.#update());
      const hadFocus = this.stage.contains(document.activeElement);
      this.stage.replaceChildren(this.#reading.element);
      if (hadFocus) this.#reading.box.focus(); // or the focus would be lost with the form
    }
    const what = edited === null ? "Approve" : "Approve with these changes";
    setText(this.approve, what);
    this.approve.setAttribute("aria-label", `${what}: ${this.name}`.replace("Approve: ", "Approve "));
    setText(this.edit, edited === null ? "Edit" : "Edit again");
    this.edit.setAttribute("aria-label", `${edited === null ? "Edit" : "Edit again"} ${this.name}`);
    this.#update();
  }

  #update() {
    const mayApprove = this.#reading?.isRead === true;
    this.approve.setAttribute("aria-disabled", String(!mayApprove));
    this.hint.hidden = mayApprove || this.#reading === null;
  }

  #openForm() {
    this.failure.hidden = true;
    const form = new EditForm(this.#edited ?? this.asked, this.acts.schemaOf(this.call), this.name, {
      check: async (text) => this.#show(inOrderOf((await this.acts.check(this.call, text)).arguments_json, this.asked)),
      leave: () => this.#show(null),
    });
    setText(this.text, "Change what it runs with. The engine checks it as it checks the model's own arguments.");
    this.row.hidden = true;
    this.hint.hidden = true;
    this.stage.replaceChildren(form.element);
    form.focus();
  }

  #approve() {
    if (this.approve.getAttribute("aria-disabled") === "true") return undefined;
    return this.#act(() => this.acts.approve(this.call, this.#edited));
  }

  /** @param {() => Promise<unknown>} act */
  async #act(act) {
    this.failure.hidden = true;
    try {
      await act();
    } catch (error) {
      this.failure.hidden = false;
      setText(this.failure, error instanceof Error ? error.message : String(error));
    }
  }
}

/** @param {ReturnType<typeof difference>[number]} change */
function changedLine({ kind, line }) {
  const shown = shownJson(`${line}\n`);
  if (kind === "same") return h("span", {}, ...shown);
  return h(kind === "gone" ? "del" : "ins", {}, ...shown);
}
