// Asks with the AI SDK and its provider for OpenAI-compatible servers.

import { load, tell, told, url } from './telling.mjs';

const { generateText, jsonSchema, streamText, tool } = load('ai');
const { createOpenAICompatible } = load('@ai-sdk/openai-compatible');
globalThis.AI_SDK_LOG_WARNINGS = false;
const provider = createOpenAICompatible({ name: 'gateway', baseURL: url, apiKey: 'sk-of-the-client', includeUsage: true });

/** What both ways of asking take. */
function options(request, messages) {
  const made = (request.tools ?? []).map(({ function: { name, description, parameters } }) => [
    name, tool({ description, inputSchema: jsonSchema(parameters) }),
  ]);
  return {
    model: provider(request.model),
    messages,
    allowSystemInMessages: true,
    providerOptions: { gateway: request.extra },
    ...(made.length ? { tools: Object.fromEntries(made) } : {}),
  };
}

/** A reply, and with tools the one after their results. */
async function ask(request, outcome) {
  const asked = options(request, request.messages);
  const result = await (request.stream ? stream(asked, outcome) : generateText(asked));
  const [response, usage, calls] = await Promise.all([result.response, result.usage, result.toolCalls]);
  if (!request.stream) outcome.text = result.text;
  outcome.id = response.id;
  outcome.finish = await result.rawFinishReason;
  outcome.usage = [usage.inputTokens, usage.outputTokens];
  outcome.report ??= response.body?.contextShift ?? null;
  outcome.headers = told(Object.entries(response.headers));
  outcome.calls = calls.map((call) => ({ id: call.toolCallId, name: call.toolName, arguments: call.input }));
  if (!request.toolResult) return;
  const content = calls.map(({ toolCallId, toolName }) => ({
    type: 'tool-result', toolCallId, toolName, output: { type: 'text', value: request.toolResult },
  }));
  const messages = [...request.messages, ...response.messages, { role: 'tool', content }];
  outcome.followUp = (await generateText(options(request, messages))).text;
}

/** A stream, read to its end; an error in it is thrown, as a program that looks for errors does. */
async function stream(asked, outcome) {
  const result = streamText({ ...asked, includeRawChunks: true, onError: () => {} });
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta') outcome.text += part.text;
    if (part.type === 'raw') outcome.report ??= part.rawValue?.contextShift ?? null;
    if (part.type === 'error') throw part.error;
  }
  return result;
}

const [sdk, own] = ['ai', '@ai-sdk/openai-compatible'].map((name) => load(`${name}/package.json`).version);
await tell(`${sdk} ${own}`, ask);
