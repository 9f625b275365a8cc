// Run by Node: `drain_pg_boss.mjs URL fill TEXTS` or `drain_pg_boss.mjs URL drain`.
// Settings: its own workers, large batches, fetched again at once while they come back full.

import { readFileSync } from "node:fs";
import { PgBoss } from "pg-boss";

const BATCH = 2000;
const STEP = 1000;
const QUIET = 1000; // ms without a job after which the queue is taken for empty

const [url, act, texts] = process.argv.slice(2);
const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
boss.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
await boss.start();

if (act === "fill") {
  const jobs = JSON.parse(readFileSync(texts, "utf8")).map((text) => ({ data: { text } }));
  await boss.createQueue("nothing");
  for (let first = 0; first < jobs.length; first += STEP) {
    await boss.insert("nothing", jobs.slice(first, first + STEP));
  }
} else {
  const done = [];
  let seenAt = performance.now() + 5 * QUIET; // it may take a while to start
  const work = { batchSize: BATCH, burstWhenBatchFull: true, localConcurrency: 2, pollingIntervalSeconds: 0.5 };
  await boss.work("nothing", work, async (jobs) => {
    seenAt = performance.now();
    const moment = (performance.timeOrigin + seenAt) / 1000;
    for (const _ of jobs) done.push(moment);
  });
  while (performance.now() - seenAt < QUIET) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  console.log(JSON.stringify(done));
}
await boss.stop({ graceful: true });
