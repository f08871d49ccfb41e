// A call as a card: what it is, where it is, how it came there, what came out, and what a person may do about it.

import { h, setAttribute, setText, shortJson, stateWords, visible } from "./dom.js";
import { isJson, layOut, oneLine, shownJson } from "./exact-json.js";
import { Question } from "./question.js";
import { seconds } from "./tool-stream.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */

/**
 * @typedef {object} Acts
 * @property {(call: CallState) => void} select   show its way through the lifecycle
 * @property {(call: CallState, edited: string | null) => Promise<unknown>} approve  with the JSON text of other arguments, or none
 * @property {(call: CallState, edited: string) => Promise<{ arguments_json: string }>} check  what it would run with
 * @property {(call: CallState) => Record<string, any> | null} schemaOf  the JSON Schema of its arguments, if that is known
 * @property {(call: CallState, reason: string) => Promise<unknown>} deny
 * @property {(call: CallState) => Promise<unknown>} cancel
 */

export class CallCard {
  /** @param {CallState} call @param {number} number  its place among the calls of its run @param {Acts} acts */
  constructor(call, number, acts) {
    this.number = number;
    this.call = call;
    this.acts = acts;
    this.title = h("button", { type: "button", class: "card-title", "aria-pressed": "false", onclick: () => this.#choose() });
    this.state = h("span", { class: "pill" });
    this.attempt = h("span", { class: "card-attempt", hidden: true });
    this.time = h("span", { class: "card-time" });
    this.arguments = h("dl", { class: "card-arguments" });
    this.way = h("ol", { class: "card-way", "aria-label": "States so far" });
    this.body = h("div", { class: "card-body" }, this.arguments, this.way);
    this.brief = h("span", { class: "card-brief" });
    const head = h("div", { class: "card-head" }, this.title, this.state, this.attempt, this.brief, this.time);
    this.element = h("article", { class: "card", "aria-label": "Tool call" }, head, this.body);
    /** @type {Map<string, HTMLElement>} */
    this.parts = new Map();
    /** @type {string | null} */
    this.shownArguments = null;
    /** @type {CallState["argumentTexts"] | null} */
    this.readTexts = null;
    /** Its arguments by name, each as exact JSON text. @type {Map<string, string>} */
    this.texts = new Map();
    this.update();
  }

  /** A name that no other call of the run has. */
  get name() {
    return `${this.call.name}, call ${this.number}`;
  }

  /** Show what is known of the call by now. */
  update() {
    const { call } = this;
    setAttribute(this.element, "data-state", call.state);
    setAttribute(this.element, "data-status", call.status);
    setText(this.title, call.name || "…");
    setAttribute(this.title, "title", `${call.id}: show its way in the diagram`);
    setText(this.state, pillWords(call));
    setAttribute(this.state, "data-missing", call.missing);
    this.attempt.hidden = call.attempt < 2;
    setText(this.attempt, `attempt ${call.attempt}`);
    this.#updateArguments();
    this.#updateWay();
    this.#part("progress", call.progress !== null || (call.message !== "" && call.endedAt === null), makeProgress, showProgress);
    this.#part("chunks", call.chunks.length > 0 && call.endedAt === null, () => h("pre", { class: "card-chunks" }), showChunks);
    this.#part("fallback", call.fallback !== null, () => h("p", { class: "note is-fallback" }), showFallback);
    const waits = call.state === "AWAITING_APPROVAL" && call.missing === null;
    this.element.classList.toggle("is-asking", waits);
    this.#part("question", waits, () => new Question(call, this.name, this.acts).element, () => {});
    this.#part("decision", call.approval !== null, () => h("p", { class: "note" }), showDecision);
    this.#part("outcome", call.status !== null, () => h("div", { class: "card-outcome" }), showOutcome);
    this.#part("damage", call.isDamaged, makeDamage, () => {});
    this.#part("cancel", call.endedAt === null && call.uid !== null && call.state !== "AWAITING_APPROVAL" && (call.missing === null || call.missing === "late"), () => this.#makeCancel(), () => {});
    setText(this.brief, briefly(call, this.texts));
    this.tick(null);
  }

  /** Show how long it takes. @param {number | null} now  seconds since the epoch, by the server's clock */
  tick(now) {
    const { startedAt, endedAt, state } = this.call;
    const end = endedAt ?? now;
    if (end !== null && startedAt > 0 && state !== "WRITING") setText(this.time, seconds(Math.max(0, end - startedAt)));
  }

  /** @param {boolean} isSelected */
  mark(isSelected) {
    this.element.classList.toggle("is-selected", isSelected);
    setAttribute(this.title, "aria-pressed", String(isSelected));
  }

  #choose() {
    this.element.classList.toggle("is-open"); // means something in a dense group alone
    this.acts.select(this.call);
  }

  #updateArguments() {
    const { call } = this;
    const given = Object.entries(call.arguments ?? {});
    // What could not be read as arguments is shown as it was written.
    const written = given.length > 0 || (call.arguments !== null && call.written.trim() === "{}") ? "" : call.written;
    const shown = written || JSON.stringify(given);
    if (this.shownArguments === shown && this.readTexts === call.argumentTexts) return;
    this.shownArguments = shown;
    this.readTexts = call.argumentTexts;
    this.texts = call.argumentTexts();
    if (written !== "") this.arguments.replaceChildren(h("dd", { class: "is-written" }, shortJson(written, 400)));
    else this.arguments.replaceChildren(...given.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, plainly(value, this.texts.get(name))))));
  }

  #updateWay() {
    const { path } = this.call;
    for (let place = this.way.childElementCount; place < path.length; place += 1) {
      const step = /** @type {import("./run-state.js").Step} */ (path[place]);
      const words = stateWords(step.state) + (step.remark === "" ? "" : `, ${step.remark}`);
      this.way.append(h("li", { "data-state": step.state, title: words }, h("span", { class: "unseen" }, words)));
    }
  }

  /** Make a part when it is first wanted; take it away when it is wanted no longer. */
  #part(/** @type {string} */ name, /** @type {boolean} */ isWanted, /** @type {() => HTMLElement} */ make, /** @type {(part: HTMLElement, call: CallState) => void} */ show) {
    let part = this.parts.get(name);
    if (!isWanted) {
      if (part?.contains(document.activeElement)) this.title.focus(); // or the focus would be lost with the button
      part?.remove();
      this.parts.delete(name);
      return;
    }
    if (part === undefined) {
      part = make();
      this.parts.set(name, part);
      this.body.append(part);
    }
    show(part, this.call);
  }

  #makeCancel() {
    const failure = h("p", { class: "note is-failure", role: "alert", hidden: true });
    const cancel = h("button", { type: "button", class: "button is-quiet", "aria-label": `Cancel ${this.name}`, onclick: () => this.#act(() => this.acts.cancel(this.call), failure) }, "Cancel");
    return h("div", { class: "card-cancel" }, cancel, failure);
  }

  /** @param {() => Promise<unknown>} act @param {HTMLElement} failure */
  async #act(act, failure) {
    failure.hidden = true;
    try {
      await act();
    } catch (error) {
      failure.hidden = false;
      setText(failure, error instanceof Error ? error.message : String(error));
    }
  }
}

/** Arguments and outcome in one line, for a dense group. @param {CallState} call @param {Map<string, string>} texts */
function briefly(call, texts) {
  const given = Object.entries(call.arguments ?? {}).map(([name, value]) => shortJson(plainly(value, texts.get(name)), 60)).join(", ");
  const outcome = call.error !== null ? String(call.error.code) : call.result !== null ? shortJson(call.result.text ?? "", 60) : "";
  return outcome === "" ? given : `${given} → ${outcome}`;
}

function makeProgress() {
  return h("div", { class: "progress" }, h("div", { class: "bar", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": "Progress" }, h("i", {})), h("p", {}));
}

/** @param {HTMLElement} part @param {CallState} call */
function showProgress(part, call) {
  const [bar, said] = /** @type {[HTMLElement, HTMLElement]} */ (/** @type {unknown} */ (part.children));
  const isShare = call.progress !== null && call.progress >= 0 && call.progress <= 1;
  bar.hidden = !isShare;
  if (isShare) {
    const percent = Math.round(/** @type {number} */ (call.progress) * 100);
    setAttribute(bar, "aria-valuenow", String(percent));
    /** @type {HTMLElement} */ (bar.firstElementChild).style.width = `${percent}%`;
  }
  setText(said, call.progress === null || isShare ? call.message : `${call.progress} ${call.message}`.trim());
}

/** @param {HTMLElement} part @param {CallState} call */
function showChunks(part, call) {
  const text = call.chunks.map((chunk) => (typeof chunk === "string" ? chunk : `${JSON.stringify(chunk)}\n`)).join("");
  setText(part, text.slice(-600));
}

/** @param {HTMLElement} part @param {CallState} call */
function showFallback(part, call) {
  const why = words(call.fallback ?? "");
  const age = call.result?.context?.fallback?.age_s;
  const old = typeof age === "number" ? `, ${seconds(age)} old` : "";
  if (call.result !== null) setText(part, `Answered by the fallback${old}: ${why}`);
  else setText(part, call.error === null ? `Asks the fallback: ${why}` : `The fallback had no answer either: ${why}`);
}

/** @param {HTMLElement} part @param {CallState} call */
function showOutcome(part, call) {
  if (part.childElementCount > 0) return; // an end comes once
  if (call.error !== null) {
    const issues = Array.isArray(call.error.issues) ? call.error.issues : [];
    const message = String(call.error.message ?? "");
    const said = issues.length > 1 ? (message.split(":")[0] ?? message) : message; // the rest is said issue by issue
    part.append(
      h("p", { class: "error-line" }, h("code", {}, String(call.error.code)), h("span", { class: "error-text" }, said)),
      ...(issues.length > 1 ? [h("ul", { class: "issues" }, ...issues.map((issue) => h("li", {}, String(issue?.message ?? ""))))] : []),
      ...(call.error.effect === "unknown" ? [h("p", { class: "note" }, "Whether it had an effect is not known.")] : []),
    );
    return;
  }
  const { data, text, reason } = call.result ?? {};
  // The text is the exact JSON of the data, unless it was made for the model in another way.
  const exact = typeof text === "string" && /^\s*[{[]/.test(text) && isJson(text) ? text : data !== null && typeof data === "object" ? JSON.stringify(data) : null;
  const shown = exact === null ? String(text ?? "") : layOut(exact);
  const parts = exact === null ? [shown] : shownJson(shown);
  if (typeof reason === "string" && call.fallback === null) part.append(h("p", { class: "note is-fallback" }, `Partial: ${words(reason)}`));
  part.append(shown.length > 240 ? h("details", { class: "result" }, h("summary", {}, shortJson(exact ?? shown, 200)), h("pre", {}, ...parts)) : h("pre", { class: "result" }, ...parts));
}

/** Where a call is, in a word or two. @param {CallState} call */
export function pillWords(call) {
  if (call.missing === "late") return "no result yet";
  if (call.missing === "never") return "no result came";
  if (call.missing === "unknown") return "not known any more";
  return call.status === "partial" ? "partial" : stateWords(call.state);
}

/**
 * A value in a line; a text that could be taken for something else, or for nothing, in quotes.
 *
 * @param {unknown} value @param {string} [text]  its exact JSON
 */
function plainly(value, text) {
  if (typeof value !== "string" && text !== undefined) return visible(shortJson(oneLine(text)));
  if (typeof value === "string" && (value.trim() !== value || value === "" || isJson(value))) return visible(shortJson(JSON.stringify(value)));
  return visible(shortJson(value));
}

/** @param {HTMLElement} part @param {CallState} call */
function showDecision(part, call) {
  const { verdict, by, reason } = call.approval ?? {};
  const who = typeof by === "string" ? ` by ${by}` : "";
  const why = typeof reason === "string" ? `: ${reason}` : "";
  const said = verdict === "expired" ? "Nobody answered in time" : `${words(String(verdict)).replace(/^./, (first) => first.toUpperCase())}${who}${why}`;
  const shown = (/** @type {string | null} */ text) => (text === null ? "nothing" : visible(shortJson(oneLine(text))));
  const edit = call.changes.map(([name, before, after]) => `${name} ${shown(before)} → ${shown(after)}`);
  setText(part, edit.length === 0 ? said : `${said}, changed: ${edit.join("; ")}`);
}

function makeDamage() {
  return h("p", { class: "note is-failure" }, "A message about this call arrived damaged; what is shown may lack something.");
}

/** @param {string} reason  machine-readable */
function words(reason) {
  return reason.replaceAll("_", " ");
}
