// How a driver for Node reads what to ask and tells what came of it: the lines of telling.py, in JavaScript.
// `node drivers/NAME.mjs URL FOLDER [PACKAGE]`: FOLDER holds node_modules.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

export const url = process.argv[2];
export const packageName = process.argv[4];
export const load = createRequire(`${process.argv[3]}/`);

/** Asks everything that stands in the input; the first line of the output is the client's version. */
export async function tell(version, ask) {
  console.log(JSON.stringify({ version }));
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    const outcome = {
      name: request.name, text: '', id: null, finish: null, usage: null, calls: [], followUp: null,
      report: null, headers: {}, error: null,
    };
    try {
      await ask(request, outcome);
    } catch (error) {
      outcome.error = described(error);
    }
    console.log(JSON.stringify(outcome));
  }
}

/** What a program can find out about an error; of one that stands for several tries, about the last. */
function described(error) {
  const last = error.lastError ?? error;
  const kinds = [];
  for (let kind = last.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) kinds.push(kind.name);
  return {
    class: error.constructor.name,
    kinds,
    status: last.status ?? last.statusCode ?? null,
    code: last.code ?? last.data?.error?.code ?? null,
    text: String(last.message),
  };
}

/** The gateway's own headers. */
export function told(entries) {
  return Object.fromEntries([...entries].filter(([name]) => name.startsWith('x-context-') || name === 'x-request-id'));
}
