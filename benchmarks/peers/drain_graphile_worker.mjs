// Run by Node: `drain_graphile_worker.mjs URL fill TEXTS` or `drain_graphile_worker.mjs URL drain`.
// Settings: those under which its documentation says it is fastest: 24 jobs at a time, a local queue of 500, and
// completions written in batches.

import { readFileSync } from "node:fs";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const STEP = 1000;
const QUIET = 1000; // ms without a job after which the queue is taken for empty

const [url, act, texts] = process.argv.slice(2);
const logger = new Logger(() => () => {});

if (act === "fill") {
  const jobs = JSON.parse(readFileSync(texts, "utf8")).map((text) => ({ identifier: "nothing", payload: { text } }));
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  for (let first = 0; first < jobs.length; first += STEP) {
    await utils.addJobs(jobs.slice(first, first + STEP));
  }
  await utils.release();
} else {
  const done = [];
  let seenAt = performance.now() + 5 * QUIET; // it may take a while to start
  const preset = {
    worker: {
      connectionString: url,
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
  const taskList = {
    nothing: () => {
      seenAt = performance.now();
      done.push((performance.timeOrigin + seenAt) / 1000);
    },
  };
  const runner = await run({ preset, taskList, logger, noHandleSignals: true });
  while (performance.now() - seenAt < QUIET) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await runner.stop();
  console.log(JSON.stringify(done));
}
