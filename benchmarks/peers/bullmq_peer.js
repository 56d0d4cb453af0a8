// BullMQ over Redis: `bullmq_peer.js submit` and `bullmq_peer.js work`. The handler is that of recording.py.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { performance } = require("node:perf_hooks");
const { Queue, Worker } = require("bullmq");
const IORedis = require("ioredis");

const QUEUE = "push";
const PRIORITIES = { high: 1, medium: 2, low: 3 };
const MESSAGE = { title: "Side by side", body: "x".repeat(200) };
const LINE_BYTES = 65;
const BATCH = 500; // jobs in one addBulk
const SLACK_MS = 100; // see recording.py
const environment = process.env;
const pace = Number(environment.PEER_PACE || 0);
const wallSeconds = () => (performance.timeOrigin + performance.now()) / 1000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const connect = () => new (IORedis.Redis || IORedis)(environment.PEER_URL, { maxRetriesPerRequest: null });

function recorder() {
  const file = fs.openSync(path.join(environment.PEER_RECORDS, `${process.pid}.records`), "a");
  const workers = Number(environment.PEER_WORKERS || 1);
  let open = false;
  let freeMs = 0;
  async function passGate() {
    fs.writeFileSync(path.join(environment.PEER_GATE, String(process.pid)), "");
    while (fs.readdirSync(environment.PEER_GATE).length < workers) await sleep(1);
    open = true;
  }
  async function send(targets) {
    const now = performance.now();
    freeMs = Math.max(freeMs, now - SLACK_MS) + (targets / pace) * 1000;
    if (freeMs > now) await sleep(freeMs - now);
  }
  return async function handle({ task, sequence, targets }) {
    if (!open) await passGate();
    const us = String(Math.round(wallSeconds() * 1e6)).padStart(16, "0");
    const count = String(targets.length).padStart(4, "0");
    fs.writeSync(file, `${us} ${task.padEnd(8)} ${String(sequence).padStart(8, "0")} ${count}\n`);
    if (pace) await send(targets.length);
  };
}

function work() {
  const handle = recorder();
  const options = { connection: connect(), concurrency: pace ? 1 : 50, removeOnComplete: { count: 0 } };
  const worker = new Worker(QUEUE, (job) => handle(job.data), options);
  worker.on("error", (error) => console.error(error));
  process.on("SIGTERM", () => process.exit(0));
}

function jobs(request) {
  const file = fs.openSync(environment.PEER_AUDIENCE, "r");
  const bytes = Buffer.alloc(request.count * LINE_BYTES);
  fs.readSync(file, bytes, 0, bytes.length, request.first * LINE_BYTES);
  fs.closeSync(file);
  const chunks = [];
  for (let start = 0; start < request.count; start += request.chunk) {
    const end = Math.min(start + request.chunk, request.count);
    chunks.push(bytes.toString("latin1", start * LINE_BYTES, end * LINE_BYTES - 1).split("\n"));
  }
  return chunks;
}

async function submit(queue, request) {
  const chunks = jobs(request);
  const opts = { priority: PRIORITIES[request.tier], removeOnComplete: true };
  const called = wallSeconds();
  for (let start = 0; start < chunks.length; start += BATCH) {
    const bulk = chunks.slice(start, start + BATCH).map((targets, index) => ({
      name: "push",
      data: { task: request.id, sequence: start + index, targets, message: MESSAGE },
      opts,
    }));
    await queue.addBulk(bulk);
  }
  return { called_s: called, seconds: wallSeconds() - called };
}

async function serve() {
  const connection = connect();
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  console.log(JSON.stringify({ ready: true }));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer = {};
    if (request.op === "submit") answer = await submit(queue, request);
    if (request.op === "clear") await connection.flushall();
    console.log(JSON.stringify(answer));
  }
  process.exit(0);
}

if (process.argv[2] === "work") work();
else serve();
