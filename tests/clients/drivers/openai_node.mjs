// Asks with the official client for Node, of any generation.

import { load, packageName, tell, told, url } from './telling.mjs';

const { OpenAI } = load(packageName);
const client = new OpenAI({ baseURL: url, apiKey: 'sk-of-the-client' });

/** One request, with the response that has the headers. */
function create(request, messages) {
  const body = { model: request.model, messages, ...request.extra };
  if (request.tools) body.tools = request.tools;
  if (request.stream) Object.assign(body, { stream: true, stream_options: { include_usage: true } });
  return client.chat.completions.create(body).withResponse();
}

/** A reply, and with tools the one after their results. */
async function ask(request, outcome) {
  const { data, response } = await create(request, request.messages);
  outcome.headers = told(response.headers.entries());
  await (request.stream ? readStream(data, outcome) : readPlain(data, outcome));
  if (!request.toolResult) return;
  const called = outcome.calls.map(({ id, ...named }) => ({ id, type: 'function', function: named }));
  const results = outcome.calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: request.toolResult }));
  const messages = [...request.messages, { role: 'assistant', content: null, tool_calls: called }, ...results];
  const next = await create({ ...request, stream: false }, messages);
  outcome.followUp = next.data.choices[0].message.content;
}

/** A whole reply. */
function readPlain(reply, outcome) {
  const [choice] = reply.choices;
  outcome.id = reply.id;
  outcome.text = choice.message.content ?? '';
  outcome.finish = choice.finish_reason;
  outcome.usage = [reply.usage.prompt_tokens, reply.usage.completion_tokens];
  outcome.report = reply.contextShift ?? null;
  outcome.calls = (choice.message.tool_calls ?? []).map((call) => ({ id: call.id, ...call.function }));
}

/** A stream, to its end. */
async function readStream(stream, outcome) {
  for await (const chunk of stream) {
    outcome.id = chunk.id;
    outcome.report ??= chunk.contextShift ?? null;
    if (chunk.usage) outcome.usage = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens];
    for (const choice of chunk.choices) {
      outcome.text += choice.delta.content ?? '';
      outcome.finish = choice.finish_reason ?? outcome.finish;
      for (const piece of choice.delta.tool_calls ?? []) gather(outcome.calls, piece);
    }
  }
}

/** One piece of a tool call, put where it belongs. */
function gather(calls, { index, id, function: piece }) {
  const call = (calls[index] ??= { id: '', name: '', arguments: '' });
  call.id += id ?? '';
  call.name += piece.name ?? '';
  call.arguments += piece.arguments ?? '';
}

await tell(load(`${packageName}/version`).VERSION, ask);
