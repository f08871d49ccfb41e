// The live page: joins the stream to the conversation, the diagram, the timeline and the circuits.

import { Announcer } from "./announcer.js";
import { Circuits } from "./circuits.js";
import { endWords, RunView, Scroll } from "./conversation.js";
import { Diagram } from "./diagram.js";
import { byId, FrameQueue, h, setText } from "./dom.js";
import { setUpTheme, setUpViews } from "./settings.js";
import { Timeline } from "./timeline.js";
import { Refused, refusal, ToolStream } from "./tool-stream.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */
/** @typedef {import("./tool-stream.js").Connection} Connection */

const TICK = 100; // milliseconds between two looks at the clock
const STAY = 500; // milliseconds for which the diagram shows a call at least, before it goes on to the next by itself
const CONNECTIONS = /** @type {Record<Connection, string>} */ ({
  idle: "ready", connecting: "connecting", open: "live", waiting: "reconnecting", ended: "ready", lost: "connection lost", closed: "ready",
});

class Page {
  /** @type {ToolStream | null} */
  stream = null;
  /** @type {RunView | null} */
  view = null;
  /** @type {Diagram | null} */
  diagram = null;
  /** The diagram goes with what happens until somebody chooses a call. */
  follows = true;
  /** @type {CallState | null} */
  selected = null;
  followedAt = -Infinity;
  /** What has been said so far, for the next request. @type {{ role: string, content: string }[]} */
  messages = [];
  /** Seconds that the server's clock is ahead of this one's, as far as can be told from when events arrive. */
  ahead = -Infinity;

  /** The JSON Schema of the arguments of each tool. @type {Map<string, Record<string, any>>} */
  schemas = new Map();

  announcer = new Announcer();
  circuits = new Circuits((text) => this.announcer.say(text));
  timeline = new Timeline((call) => this.select(call));
  scroll = new Scroll(byId("entries"));
  /** @type {FrameQueue<CallState | null>} */
  queue = new FrameQueue((call) => this.draw(call), () => this.settle());

  async open() {
    setUpTheme();
    setUpViews();
    this.setUpComposer();
    byId("waiting").addEventListener("click", () => this.goToQuestion());
    setInterval(() => this.tick(), TICK);
    const [page, lifecycles, tools] = await Promise.all(["page.json", "lifecycles", "tools"].map(fetchJson));
    setText(byId("intro"), page.intro);
    byId("suggestions").append(...page.suggestions.map((/** @type {{ label: string, text: string }} */ each) =>
      h("button", { type: "button", class: "suggestion", onclick: () => this.ask(each.text) }, each.label)));
    byId("tools").append(...tools.tools.map((/** @type {{ name: string, description: string }} */ each) =>
      h("li", {}, h("code", {}, each.name), h("span", {}, each.description))));
    for (const each of tools.tools) this.schemas.set(each.name, each.parameters);
    this.diagram = new Diagram(lifecycles.lifecycles[0]);
    await this.circuits.look(0);
    this.restore();
  }

  // -- asking --------------------------------------------------------------------------------------------------------

  setUpComposer() {
    const form = /** @type {HTMLFormElement} */ (byId("composer"));
    const text = /** @type {HTMLTextAreaElement} */ (byId("text"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.isRunning) return void this.stream?.cancelRun("stopped by the person").catch(() => {});
      if (text.value.trim() !== "") this.ask(text.value.trim());
      text.value = "";
      return undefined;
    });
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !this.isRunning) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
  }

  get isRunning() {
    return this.stream !== null && !["ended", "lost", "closed"].includes(this.stream.connection);
  }

  /** @param {string} text */
  ask(text) {
    if (this.isRunning) return;
    this.messages.push({ role: "user", content: text });
    this.watch(text).start({ messages: this.messages });
    this.scroll.toEnd();
  }

  /** A run that was begun before the page was loaded again. */
  restore() {
    const kept = JSON.parse(sessionStorage.getItem("run") ?? "null");
    if (kept === null || this.stream !== null) return;
    this.messages.push({ role: "user", content: kept.text });
    this.watch(kept.text).resume(kept.runId);
  }

  /** @param {string} text */
  watch(text) {
    byId("welcome").hidden = true;
    this.timeline.clear();
    this.follows = true;
    this.select(null, true);
    const stream = new ToolStream({
      onChange: (state, call, event) => this.change(state, call, event),
      onConnection: (connection, why) => this.connect(stream, text, connection, why),
    });
    this.stream = stream;
    this.view = new RunView(text, stream.state, {
      select: (call) => this.select(call),
      approve: (call, edited) => stream.approve(/** @type {string} */ (call.uid), edited === null ? {} : `{"arguments":${edited}}`),
      check: (call, edited) => stream.check(/** @type {string} */ (call.uid), `{"arguments":${edited}}`),
      schemaOf: (call) => this.schemas.get(call.name) ?? null,
      deny: (call, reason) => stream.deny(/** @type {string} */ (call.uid), reason),
      cancel: (call) => stream.cancel(/** @type {string} */ (call.uid)),
    });
    return stream;
  }

  // -- what happens --------------------------------------------------------------------------------------------------

  /** @param {import("./tool-stream.js").RunState} state @param {CallState | null} call @param {Record<string, any> | null} event */
  change(state, call, event) {
    if (this.view !== null) this.view.state = state;
    if (typeof event?.at === "number") this.ahead = Math.max(this.ahead, event.at - Date.now() / 1000);
    if (call !== null) this.announcer.note(call, event);
    this.queue.add(call);
    if (event?.type === "tool_fallback" || event?.type === "tool_error" || event?.type === "tool_result") void this.circuits.look(200);
  }

  /** @param {CallState | null} call */
  draw(call) {
    this.view?.draw(call);
    if (call === null) return;
    this.timeline.show(call);
    if (this.follows) this.follow(call);
    if (call === this.selected) this.diagram?.show(call);
  }

  /** At the end of a frame in which something was drawn. */
  settle() {
    this.timeline.settle();
    this.scroll.follow();
    this.showWaiting();
  }

  /** Stay with a call until it has ended; go on to another that has not. @param {CallState} call */
  follow(call) {
    const now = this.selected;
    if (call === now || call.path.length === 0) return;
    const isFree = (now === null || now.endedAt !== null) && performance.now() - this.followedAt > STAY;
    const isUrgent = call.state === "AWAITING_APPROVAL" && now?.state !== "AWAITING_APPROVAL";
    if (!isFree && !isUrgent) return;
    this.followedAt = performance.now();
    this.select(call, true);
  }

  /** @param {CallState | null} call @param {boolean} [byItself]  nobody has chosen it */
  select(call, byItself = false) {
    if (!byItself) this.follows = false;
    const cards = this.view?.cards;
    if (this.selected !== null) cards?.get(this.selected)?.mark(false);
    this.selected = call;
    if (call !== null) cards?.get(call)?.mark(true);
    this.timeline.mark(call);
    this.diagram?.show(call);
  }

  /** @param {ToolStream} stream @param {string} text @param {Connection} connection @param {string} why */
  connect(stream, text, connection, why) {
    if (stream !== this.stream) return;
    const status = byId("status");
    status.dataset.connection = connection;
    setText(status, CONNECTIONS[connection]);
    status.title = why;
    if (connection === "open") sessionStorage.setItem("run", JSON.stringify({ runId: stream.runId, text }));
    document.body.classList.toggle("is-running", this.isRunning);
    setText(byId("send"), this.isRunning ? "Stop" : "Send");
    if (this.isRunning) return;
    this.queue.add(null);
    const { state } = stream;
    if (state.answer !== "") this.messages.push({ role: "assistant", content: state.answer });
    const told = connection === "lost" ? `This run can no longer be followed: ${why}.` : endWords(state.end ?? {});
    const lost = state.lost === 0 ? "" : ` ${state.lost} events are missing.`;
    this.view?.close(told + lost);
    this.announcer.say(told || "The model has answered");
    if (connection === "lost") sessionStorage.removeItem("run");
    void this.circuits.look(0);
  }

  tick() {
    const now = Date.now() / 1000 + (Number.isFinite(this.ahead) ? this.ahead : 0);
    const running = this.isRunning;
    if (running) {
      for (const [call, card] of this.view?.cards ?? []) {
        if (call.endedAt !== null) continue;
        card.tick(now);
        if (this.follows) this.follow(call);
      }
      this.diagram?.tick(now);
    }
    this.timeline.tick(now, running);
    if (running || this.circuits.isRestless) void this.circuits.look();
  }

  // -- questions -----------------------------------------------------------------------------------------------------

  get questions() {
    return [...(this.stream?.state.calls.values() ?? [])].filter((call) => call.state === "AWAITING_APPROVAL" && call.missing === null);
  }

  showWaiting() {
    const count = this.questions.length;
    const button = byId("waiting");
    button.hidden = count === 0;
    setText(button, count === 1 ? "1 call waits for you" : `${count} calls wait for you`);
  }

  goToQuestion() {
    const [call] = this.questions;
    const card = call === undefined ? undefined : this.view?.cards.get(call)?.element;
    if (card === undefined) return;
    document.body.dataset.view = "talk";
    card.scrollIntoView({ block: "center" });
    /** @type {HTMLElement | null} */ (card.querySelector(".question button"))?.focus();
  }
}

/** @param {string} path @returns {Promise<any>} */
async function fetchJson(path) {
  const response = await fetch(path);
  if (!response.ok) throw await refusal(response);
  return response.json();
}

const page = new Page();
page.open().catch((error) => {
  byId("status").dataset.connection = "lost";
  const isRefused = error instanceof Refused;
  setText(byId("status"), isRefused && error.status === 401 ? "not signed in" : isRefused ? "refused" : "the server cannot be reached");
  byId("status").title = error.message;
  setText(byId("intro"), isRefused ? `The server refuses: ${error.message}` : "The server cannot be reached. Load the page again when it runs.");
  throw error;
});
