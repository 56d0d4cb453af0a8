// Submit any number of targets to Fairlane and follow them, with fetch alone (Node 18 or newer):
//
//   FAIRLANE_KEY=flk_... node examples/upload.mjs 10000000 sale-1 fcm
//
// Run it again with the same id after anything went wrong: it goes on with what is stored already.
import { setTimeout as sleep } from "node:timers/promises";

const [count = "1000000", id = `node-${Date.now()}`, channel = "fcm"] = process.argv.slice(2);
const url = process.env.FAIRLANE_API ?? "http://127.0.0.1:8480";
const headers = { Authorization: `Bearer ${process.env.FAIRLANE_KEY}` };
const task = { id, channel, message: { title: "Sale", body: "Today only" }, expected_targets: Number(count) };
const BLOCK = 5_000; // lines in a piece of the body

/** The body of the upload, made while it is sent: the task in the first line, then a target in each. */
function audience() {
  let next = 0;
  const text = new TextEncoder();
  return new ReadableStream({
    start: (body) => body.enqueue(text.encode(JSON.stringify(task) + "\n")),
    pull(body) {
      const lines = [];
      for (const end = Math.min(next + BLOCK, Number(count)); next < end; next++) {
        lines.push(JSON.stringify(`device-${String(next).padStart(32, "0")}`));
      }
      if (lines.length) body.enqueue(text.encode(lines.join("\n") + "\n"));
      else body.close();
    },
  });
}

/** Why a connection broke: a server that refuses an upload answers before its end, and fetch does not show that answer. */
async function refusal(error) {
  console.error(`the connection broke: ${error.cause ?? error}`);
  const body = JSON.stringify({ id, channel, message: task.message, targets: ["device-0"] });
  const asked = { method: "POST", body, headers: { ...headers, "Content-Type": "application/json" } };
  const answer = await fetch(`${url}/v1/tasks/preview`, asked).catch(() => undefined);
  return answer?.ok ? undefined : answer;
}

/** Upload until the task is complete. The same id may be sent any number of times. */
async function submit() {
  for (;;) {
    const request = { method: "POST", body: audience(), duplex: "half" };
    const answer = await fetch(`${url}/v1/tasks`, {
      ...request,
      headers: { ...headers, "Content-Type": "application/x-ndjson" },
    }).catch(refusal);
    const document = await answer?.json();
    if (answer?.ok) return document;
    const wait_s = answer ? answer.headers.get("Retry-After") : 1;
    if (wait_s === null) throw new Error(`${document.title}: ${document.detail} ${document.next_step}`);
    if (document) console.error(`${document.title}: ${document.detail} ${document.next_step}`);
    await sleep(1000 * Number(wait_s));
  }
}

/** The events of an answer: their names and data. */
async function* events(answer) {
  let text = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    const whole = (text + part).split("\n\n");
    text = whole.pop();
    for (const event of whole) {
      const name = /^event: (.*)$/m.exec(event);
      if (name) yield [name[1], JSON.parse(/^data: (.*)$/m.exec(event)[1])];
    }
  }
}

/** Show the task's progress until it ends. A stream that breaks is opened again: it begins with the present state. */
async function follow() {
  for (;;) {
    const answer = await fetch(`${url}/v1/tasks/${id}/events`, { headers }).catch(() => undefined);
    try {
      for await (const [name, data] of answer?.ok ? events(answer) : []) {
        if (name === "task" || name === "end") console.log(name, JSON.stringify(data));
        if (name === "end") return;
      }
    } catch (error) {
      console.error(`the stream of events broke: ${error.cause ?? error}`);
    }
    await sleep(1000);
  }
}

const followed = follow();
const { accepted, refused } = await submit();
console.log(`${id}: ${accepted} targets accepted, ${refused} refused`);
await followed;
