// Agent of Vercel's AI SDK with its default model of OpenAI, with a tool of its own: a program, run in a folder that has
// the SDK installed.
//
//     node vercel_ai_client.mjs whole|stream URL TEXT
//
// The user says Hi, the model's calls are answered with "mine", and when it has said TEXT the user goes on with the whole
// conversation. The texts and calls of all steps are printed as one line of JSON.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.cwd()}/`);
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const { generateText, streamText, stepCountIs, tool, jsonSchema } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");

const MOST_STEPS = 8;
const [way, url, last] = process.argv.slice(2);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const theirs = tool({
  description: "The caller's",
  inputSchema: jsonSchema({ type: "object", properties: {}, additionalProperties: true }),
  execute: async () => "mine",
});

async function talk(messages) {
  const request = { model: openai("scripted"), messages, tools: { theirs }, stopWhen: stepCountIs(MOST_STEPS), maxRetries: 0 };
  if (way === "whole") return await generateText(request);
  const result = streamText({ ...request, onError: ({ error }) => { throw error; } });
  await result.consumeStream();
  return { steps: await result.steps, response: await result.response };
}

const told = [];
const messages = [{ role: "user", content: "Hi" }];
for (const more of ["Sure?", null]) {
  const { steps, response } = await talk(messages);
  told.push(...steps.map((step) => ({ text: step.text, calls: step.toolCalls.map((call) => call.toolName) })));
  if (!steps.at(-1).text.includes(last)) break;
  messages.push(...response.messages, { role: "user", content: more });
}
process.stdout.write(`${JSON.stringify(told)}\n`);
