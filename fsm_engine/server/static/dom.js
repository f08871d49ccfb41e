// The few things that every part of the page does with elements.

/**
 * Make an element. Text is always text: nothing that a model or a tool says becomes markup.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [properties]  "on…" listens, the rest are attributes; null and false are left out
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  setAll(element, properties);
  element.append(...children);
  return element;
}

/**
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAll(element, properties);
  element.append(...children);
  return element;
}

/** @param {Element} element @param {Record<string, any>} properties */
function setAll(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Set a text only if it changes; what does not change is not laid out again. @param {Node} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {Element} element @param {string} name @param {string | null} value */
export function setAttribute(element, name, value) {
  if (value === null) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** The element of the page with this id. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/** A state's name as people read it: "AWAITING_APPROVAL" is "awaiting approval". @param {string} state */
export function stateWords(state) {
  return state.toLowerCase().replaceAll("_", " ");
}

// What shows nothing, or changes how the rest is shown: control and format characters and their like.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u2800\u3164\ufe00-\ufe0f\uffa0]/gu;

/** A text with escapes in the place of what could not be seen. @param {string} text */
export function visible(text) {
  return text.replace(UNSEEN, (sign) => `\\u${/** @type {number} */ (sign.codePointAt(0)).toString(16).padStart(4, "0")}`);
}

/** A value of JSON in one line, not too long. @param {unknown} value @param {number} [limit] */
export function shortJson(value, limit = 160) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}

/**
 * Does work in pieces between frames, so that the page stays alive however much there is to draw.
 *
 * Each item waits in a set, so that one that changes a hundred times before its turn is drawn once.
 *
 * @template T
 */
export class FrameQueue {
  /** @type {Set<T>} */
  #waiting = new Set();
  #draw;
  #after;
  #isDue = false;

  /**
   * @param {(item: T) => void} draw
   * @param {() => void} after  is called at the end of every frame in which something was drawn
   */
  constructor(draw, after) {
    this.#draw = draw;
    this.#after = after;
  }

  /** @param {T} item */
  add(item) {
    this.#waiting.add(item);
    this.#wake();
  }

  #wake() {
    if (this.#isDue) return;
    this.#isDue = true;
    // A page in the background gets no frames, but its text should be there when it is looked at.
    if (document.hidden) setTimeout(() => this.#run(), 100);
    else requestAnimationFrame(() => this.#run());
  }

  #run() {
    this.#isDue = false;
    const until = performance.now() + 8; // milliseconds: half a frame at 60 Hz
    for (const item of this.#waiting) {
      this.#waiting.delete(item);
      this.#draw(item);
      if (performance.now() > until) break;
    }
    this.#after();
    if (this.#waiting.size > 0) this.#wake();
  }
}
