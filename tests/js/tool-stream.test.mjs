// The connection: a real HTTP server on this machine says what the engine's would say, and breaks off where it must.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";

import { ToolStream } from "../../fsm_engine/server/static/tool-stream.js";

const FAST = { firstDelay: 1, longestDelay: 5, attempts: 3 };
const frame = (event) => `event: ${event.type}\nid: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`;
const EVENTS = [
  { type: "tool_call", seq: 1, at: 1, id: "c1", uid: "u1", name: "add", arguments: { a: 1 } },
  { type: "tool_execution", seq: 2, at: 2, id: "c1", uid: "u1", status: "EXECUTING", attempt: 1 },
  { type: "tool_result", seq: 3, at: 3, id: "c1", uid: "u1", result: { status: "success", text: "1" }, status: "success" },
  { type: "run_ended", seq: 4, at: 4, reason: "final_answer" },
];

/** Serve each request by the next of these handlers; answers the address, and what was asked. */
async function serve(context, ...handlers) {
  const asked = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    asked.push({ method: request.method, url: request.url, headers: request.headers, body });
    (handlers.length > 1 ? handlers.shift() : handlers[0])(response, asked.at(-1));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => (server.closeAllConnections(), server.close()));
  return { base: `http://127.0.0.1:${server.address().port}`, asked };
}

const open = (response) => response.writeHead(200, { "Content-Type": "text/event-stream", "X-Run-ID": "run_1" });
const stream = (...events) => (response) => open(response).end(events.map(frame).join(""));
const refuse = (status, detail, headers = {}) => (response) => response.writeHead(status, headers).end(JSON.stringify({ detail }));
const cut = (...events) => (response) => open(response).write(events.map(frame).join(""), () => response.destroy());

test("a run is started by a POST and read to its end", async (context) => {
  const { base, asked } = await serve(context, stream(...EVENTS));
  const changes = [];
  const watched = new ToolStream({ ...FAST, base, onChange: (_, call, event) => changes.push([event.type, call?.uid]) });
  const state = await watched.start({ messages: [] }).finished;
  assert.deepEqual([asked[0].method, asked[0].url, asked[0].body], ["POST", "/chat/stream", '{"messages":[]}']);
  assert.deepEqual(changes, [["tool_call", "u1"], ["tool_execution", "u1"], ["tool_result", "u1"], ["run_ended", undefined]]);
  assert.deepEqual([watched.runId, watched.connection, state.calls.get("u1").state], ["run_1", "ended", "COMPLETED"]);
});

test("a connection that is cut comes back with the last number, and no event is taken twice", async (context) => {
  const { base, asked } = await serve(context, cut(...EVENTS.slice(0, 2)), refuse(503, "restarting"), stream(...EVENTS.slice(1)));
  const connections = [];
  const watched = new ToolStream({ ...FAST, base, headers: { Authorization: "Bearer x" }, onConnection: (name) => connections.push(name) });
  const state = await watched.start({}).finished;
  assert.deepEqual(asked.map((each) => [each.method, each.url, each.headers["last-event-id"], each.headers.authorization]), [
    ["POST", "/chat/stream", undefined, "Bearer x"],
    ["GET", "/runs/run_1/events", "2", "Bearer x"],
    ["GET", "/runs/run_1/events", "2", "Bearer x"],
  ]);
  assert.deepEqual(connections, ["connecting", "open", "waiting", "waiting", "open", "ended"]);
  assert.equal(state.calls.get("u1").path.length, 3);
  assert.equal(state.lost, 0);
});

test("an end without run_ended is no end", async (context) => {
  const { base } = await serve(context, stream(EVENTS[0]), stream(...EVENTS.slice(1)));
  const watched = new ToolStream({ ...FAST, base });
  await watched.resume("run_1").finished;
  assert.equal(watched.connection, "ended");
});

test("attempts are counted in a row: one that brings something begins the count anew", async (context) => {
  const { base, asked } = await serve(context, cut(EVENTS[0]), refuse(500, "x"), cut(EVENTS[1]), refuse(500, "x"), cut(EVENTS[2]), refuse(500, "x"), stream(EVENTS[3]));
  const watched = new ToolStream({ ...FAST, base });
  await watched.start({}).finished;
  assert.deepEqual([watched.connection, asked.length], ["ended", 7]);
});

test("a connection that goes silent is given up for a new one", async (context) => {
  const { base, asked } = await serve(context, (response) => open(response).write(frame(EVENTS[0])), stream(...EVENTS.slice(1)));
  const watched = new ToolStream({ ...FAST, base, silence: 30 });
  await watched.start({}).finished;
  assert.deepEqual([watched.connection, asked.length], ["ended", 2]);
});

const LOST = [
  ["a run that the server does not know", [refuse(404, "there is no such run")], (it) => it.resume("r"), "there is no such run", 1],
  ["a reader whom it refuses", [refuse(403, "not yours")], (it) => it.resume("r"), "not yours", 1],
  ["a run that may have begun, but has no name", [(response) => response.destroy()], (it) => it.start({}), "fetch failed", 1],
  ["a request that is wrong", [(response) => response.writeHead(422).end("<html>")], (it) => it.start({}), "the server answered 422 Unprocessable Entity", 1],
  ["a server that fails too often", [refuse(500, "broken")], (it) => it.resume("r"), "broken", 3],
];
for (const [what, handlers, begin, why, requests] of LOST) {
  test(`lost: ${what}`, async (context) => {
    const { base, asked } = await serve(context, ...handlers);
    const told = [];
    const watched = new ToolStream({ ...FAST, base, onConnection: (...each) => told.push(each) });
    await begin(watched).finished;
    assert.deepEqual(told.at(-1), ["lost", why]);
    assert.equal(asked.length, requests);
  });
}

test("calls that were under way when the stream was lost are marked", async (context) => {
  const { base } = await serve(context, cut(EVENTS[0]), refuse(404, "gone"));
  const state = await new ToolStream({ ...FAST, base }).start({}).finished;
  assert.equal(state.calls.get("u1").missing, "unknown");
});

test("a server that asks for patience gets it", async (context) => {
  const { base } = await serve(context, refuse(429, "full", { "Retry-After": "0.08" }), stream(...EVENTS));
  const began = performance.now();
  const watched = new ToolStream({ ...FAST, base });
  await watched.resume("run_1").finished;
  assert.equal(watched.connection, "ended");
  assert.ok(performance.now() - began >= 75);
});

test("a call without a result in time is told of while the connection lives", async (context) => {
  const { base } = await serve(context, (response) => {
    open(response).write(frame(EVENTS[0]));
    setTimeout(() => response.end(EVENTS.slice(1).map(frame).join("")), 150);
  });
  const told = [];
  const onChange = (_, call, event) => event === null && told.push([call.uid, call.missing]);
  const state = await new ToolStream({ ...FAST, base, resultTimeout: 40, onChange }).start({}).finished;
  assert.deepEqual(told, [["u1", "late"]]);
  assert.equal(state.calls.get("u1").missing, null);
});

test("a damaged message is told of, and what was recovered is used", async (context) => {
  const whole = JSON.stringify(EVENTS[2]);
  const { base } = await serve(context, (response) => {
    open(response).end(frame(EVENTS[0]) + frame(EVENTS[1]) + `event: tool_result\nid: 3\ndata: ${whole.slice(0, -30)}\n\n` + frame(EVENTS[3]));
  });
  const damages = [];
  const state = await new ToolStream({ ...FAST, base, onDamage: (damage) => damages.push(damage) }).start({}).finished;
  assert.deepEqual([damages.length, damages[0].isWhole, damages[0].event.uid], [1, false, "u1"]);
  assert.deepEqual([state.calls.get("u1").state, state.calls.get("u1").isDamaged, state.lost], ["COMPLETED", true, 0]);
});

test("decisions are posted to the run's calls, and a refusal is raised in the server's words", async (context) => {
  const { base, asked } = await serve(
    context, (response) => open(response).write(frame(EVENTS[0])),
    refuse(200, ""), refuse(200, ""), refuse(200, ""), refuse(200, ""), refuse(409, "it has ended"),
  );
  let arrived;
  const first = new Promise((resolve) => (arrived = resolve));
  const watched = new ToolStream({ ...FAST, base: `${base}/`, onChange: arrived });
  watched.start({});
  await first;
  await watched.approve("u/1", { arguments: { a: 2 } });
  await watched.deny("u1", "no");
  await watched.cancel("u1");
  await watched.cancelRun("enough");
  await assert.rejects(watched.approve("u1"), { message: "it has ended" });
  assert.deepEqual(asked.slice(1).map((each) => [each.url, each.body]), [
    ["/runs/run_1/calls/u%2F1/approve", '{"arguments":{"a":2}}'],
    ["/runs/run_1/calls/u1/deny", '{"reason":"no"}'],
    ["/runs/run_1/calls/u1/cancel", '{"reason":""}'],
    ["/runs/run_1/cancel", '{"reason":"enough"}'],
    ["/runs/run_1/calls/u1/approve", "{}"],
  ]);
  watched.close();
  await watched.finished;
  assert.equal(watched.connection, "closed");
});

test("closing ends the waiting between two attempts, and nothing is told afterwards", async (context) => {
  const { base } = await serve(context, cut(EVENTS[0]), refuse(500, "down"));
  const connections = [];
  const watched = new ToolStream({
    ...FAST, base, firstDelay: 60_000, longestDelay: 60_000,
    onConnection: (name) => (connections.push(name), name === "waiting" && setTimeout(() => watched.close())),
  });
  await watched.start({}).finished;
  assert.deepEqual(connections, ["connecting", "open", "waiting", "closed"]);
});

test("one object watches one run", async (context) => {
  const { base } = await serve(context, stream(...EVENTS));
  const watched = new ToolStream({ ...FAST, base });
  await watched.start({}).finished;
  assert.throws(() => watched.resume("run_2"), /make another one/);
});
