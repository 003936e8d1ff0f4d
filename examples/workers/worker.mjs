// A worker over HTTP, with nothing but Node.
//
//   node worker.mjs http://127.0.0.1:7800

const url = `${process.argv[2]}/api/v1/workers`;

async function call(path, body) {
  const answer = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const reverse = ({ text }) => ({ text: [...text].reverse().join("") });

const me = await call("", { name: "node", executors: ["reverse"], concurrency: 1 });
let done = [];
for (let seq = 1, draining = false; !draining; seq++) {
  const reply = await call(`/${me.worker_id}/exchange`, { seq, done, take: 1, wait_ms: 20_000 });
  ({ draining } = reply);
  done = reply.tasks.map(({ task, config }) => {
    try {
      return { task, result: reverse(config) };
    } catch (error) {
      return { task, error: { type: error.name, message: error.message, retryable: false } };
    }
  });
}
