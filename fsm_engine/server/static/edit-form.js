// Other arguments for a call, as a form that its tool's JSON Schema makes, or as JSON where that is plainer.

import { h, setText } from "./dom.js";
import { isJson, layOut, membersOf, objectText } from "./exact-json.js";

/**
 * @typedef {object} Field
 * @property {HTMLElement} element
 * @property {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
 * @property {HTMLInputElement | null} given  whether it is given at all; null: it has to be
 * @property {HTMLElement} fault
 * @property {() => string} text  the JSON text of its value
 */

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const SPOKEN = /^"(?:[^"\\]|\\["\\/n])*"$/; // a string in which everything can be seen as it is

export class EditForm {
  /** @type {Map<string, Field>} */
  #fields = new Map();
  /** @type {HTMLTextAreaElement | null} */
  #whole = null;

  /**
   * @param {string} text  JSON of the arguments
   * @param {Record<string, any> | null} schema  of the arguments
   * @param {string} name  of the call, no other's on the page
   * @param {{ check: (text: string) => Promise<void>, leave: () => void }} acts
   */
  constructor(text, schema, name, acts) {
    this.schema = schema;
    this.name = name;
    this.acts = acts;
    this.place = h("div", { class: "edit-fields" });
    this.failure = h("p", { class: "note is-failure", role: "alert", hidden: true });
    this.toggle = h("button", { type: "button", class: "button is-quiet", onclick: () => this.#toggle() });
    this.element = h("form", { class: "edit", "aria-label": `Other arguments for ${name}`, novalidate: true, onsubmit: (/** @type {Event} */ event) => this.#submit(event) },
      this.place,
      this.failure,
      h("div", { class: "question-row" },
        h("button", { type: "submit", class: "button is-main", "aria-label": `Check the changes of ${name}` }, "Check"),
        h("button", { type: "button", class: "button", "aria-label": `Leave ${name} as it was`, onclick: () => acts.leave() }, "Back"),
        this.toggle));
    if (schema?.properties) this.#showFields(text);
    else this.#showWhole(text);
    this.toggle.hidden = !schema?.properties;
  }

  focus() {
    /** @type {HTMLElement | null} */ (this.place.querySelector("input:not([type=checkbox]), select, textarea"))?.focus();
  }

  /** The JSON text of what stands in the form. */
  text() {
    if (this.#whole !== null) return this.#whole.value;
    const given = [...this.#fields].filter(([, field]) => field.given === null || field.given.checked);
    return objectText(given.map(([name, field]) => [name, field.text()]));
  }

  #toggle() {
    const text = this.text();
    if (this.#whole === null) this.#showWhole(text);
    else if (!isJson(text)) return this.#fail("This is not JSON yet.");
    else this.#showFields(text);
    this.focus();
    return undefined;
  }

  /** @param {string} text */
  #showWhole(text) {
    this.#fields.clear();
    this.#whole = h("textarea", { class: "edit-json", rows: "8", spellcheck: "false", "aria-label": `Arguments of ${this.name} as JSON` });
    this.#whole.value = isJson(text) ? layOut(text) : text;
    this.place.replaceChildren(this.#whole);
    setText(this.toggle, "As a form");
  }

  /** @param {string} text */
  #showFields(text) {
    this.#whole = null;
    this.#fields.clear();
    const members = membersOf(text);
    const properties = this.schema?.properties ?? {};
    const required = new Set(this.schema?.required ?? []);
    for (const name of new Set([...Object.keys(properties), ...members.keys()])) {
      const raw = members.get(name) ?? null;
      this.#fields.set(name, makeField(name, Object.hasOwn(properties, name) ? properties[name] : {}, raw, required.has(name), this.name));
    }
    this.place.replaceChildren(...[...this.#fields.values()].map((field) => field.element));
    setText(this.toggle, "As JSON");
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    this.failure.hidden = true;
    for (const field of this.#fields.values()) blame(field, "");
    const text = this.text();
    if (!isJson(text)) {
      for (const field of this.#fields.values()) if (!isJson(field.text())) blame(field, "This is not JSON.");
      return this.#fail("This is not JSON yet.");
    }
    try {
      await this.acts.check(text);
    } catch (error) {
      const isShown = this.#blame(/** @type {any} */ (error)?.issues ?? []);
      this.#fail(isShown ? "The engine would refuse this; the fields say why." : error instanceof Error ? error.message : String(error));
    }
    return undefined;
  }

  /** Show each issue at its field; false: one of them is of none. @param {{ path: string, message: string }[]} issues */
  #blame(issues) {
    let areShown = issues.length > 0;
    for (const issue of issues) {
      const field = this.#fields.get(issue.path) ?? this.#fields.get(/^[^.[]*/.exec(issue.path)?.[0] ?? "");
      if (field === undefined) areShown = false;
      else blame(field, issue.message);
    }
    /** @type {HTMLElement | null} */ (this.place.querySelector("[aria-invalid=true]"))?.focus();
    return areShown;
  }

  /** @param {string} why */
  #fail(why) {
    this.failure.hidden = false;
    setText(this.failure, why);
  }
}

let fields = 0;

/**
 * @param {string} name @param {any} schema @param {string | null} raw  the JSON text of its value; null: it has none
 * @param {boolean} isRequired @param {string} call
 * @returns {Field}
 */
function makeField(name, schema, raw, isRequired, call) {
  const id = `edit-${(fields += 1)}`;
  const { input, text } = makeInput(schema, raw ?? (schema?.default === undefined ? null : JSON.stringify(schema.default)));
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-about ${id}-fault`);
  const given = isRequired ? null : h("input", { type: "checkbox", "aria-label": `Give ${name} of ${call}` });
  if (given !== null) {
    given.checked = raw !== null;
    input.disabled = !given.checked;
    given.addEventListener("change", () => (input.disabled = !given.checked));
  }
  const fault = h("p", { class: "note is-failure", id: `${id}-fault` });
  const element = h("div", { class: "edit-field" },
    h("div", { class: "edit-name" }, ...(given === null ? [] : [given]), h("label", { for: id }, name), h("span", { class: "edit-kind" }, input.classList.contains("edit-json") ? "as JSON" : kindWords(schema))),
    input,
    h("p", { class: "note", id: `${id}-about` }, typeof schema?.description === "string" ? schema.description : ""),
    fault);
  return { element, input, given, fault, text };
}

/** @param {any} schema @param {string | null} raw */
function makeInput(schema, raw) {
  const options = Array.isArray(schema?.enum) ? schema.enum.map((/** @type {unknown} */ each) => JSON.stringify(each)) : schema?.type === "boolean" ? ["true", "false"] : null;
  if (options !== null && (raw === null || options.includes(raw))) {
    const select = h("select", {}, ...options.map((/** @type {string} */ each) => h("option", { value: each, selected: each === raw }, each)));
    return { input: select, text: () => select.value };
  }
  if (schema?.type === "integer" || schema?.type === "number") {
    const input = h("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
    input.value = raw ?? "";
    // Kept as it is written: as a number of this language it might be rounded. What is none is for the engine to refuse.
    return { input, text: () => (NUMBER.test(input.value.trim()) ? input.value.trim() : isJson(input.value) ? input.value : JSON.stringify(input.value)) };
  }
  const area = h("textarea", { rows: "1", spellcheck: "false" });
  if (schema?.type === "string" && (raw === null || SPOKEN.test(raw))) {
    area.value = raw === null ? "" : JSON.parse(raw);
    return { input: area, text: () => JSON.stringify(area.value) };
  }
  area.classList.add("edit-json");
  area.value = raw === null ? "null" : layOut(raw);
  return { input: area, text: () => area.value };
}

/** @param {any} schema */
function kindWords(schema) {
  const kind = Array.isArray(schema?.enum) ? "one of these" : typeof schema?.type === "string" ? schema.type : "JSON";
  return kind === "string" ? "text" : kind;
}

/** @param {Field} field @param {string} why */
function blame(field, why) {
  const before = field.fault.textContent;
  setText(field.fault, why === "" || before === "" ? why : `${before} ${why}`);
  field.input.setAttribute("aria-invalid", String(why !== ""));
}
