// Vercel's AI SDK, with the default models of its packages for OpenAI, Anthropic and Google; jobs as in client_tasks.py.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// the packages are in the environment, where this runs, and not beside this file
const load = (name) => import(pathToFileURL(createRequire(process.cwd() + "/").resolve(name)));
const { generateText, jsonSchema, stepCountIs, streamText, tool } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const { createGoogleGenerativeAI } = await load("@ai-sdk/google");

console.log = console.info = console.error; // standard output is for answers
const QUESTIONS = ["How much rope is in both stores?", "And with a metre more?"];
const KEY = { apiKey: "no-key" };
const ran = [];

const TOOLS = {
  store: tool({
    description: "Stock of a store.",
    inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"] }),
    execute: ({ city }) => (ran.push(`store ${city}`), `40 in ${city}`),
  }),
  demo__add: tool({
    description: "Add two numbers.",
    inputSchema: jsonSchema({
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" } },
      required: ["a", "b"],
    }),
    execute: ({ a, b }) => (ran.push(`demo__add ${a} ${b}`), String(a + b)),
  }),
};

const MODELS = {
  "openai()": (url) => createOpenAI({ baseURL: `${url}/v1`, ...KEY })("gpt-5"),
  "openai.chat()": (url) => createOpenAI({ baseURL: `${url}/v1`, ...KEY }).chat("gpt-5"),
  "anthropic()": (url) => createAnthropic({ baseURL: `${url}/v1`, ...KEY })("claude-sonnet-4-5"),
  "google()": (url) => createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, ...KEY })("gemini-2.5-flash"),
};

async function answer(job, messages) {
  const tools = Object.fromEntries(job.tools.map((name) => [name, TOOLS[name]]));
  const options = { model: MODELS[job.api](job.url), messages, tools, stopWhen: stepCountIs(8) };
  if (!job.stream) return await generateText(options);
  let failure;
  const result = streamText({ ...options, onError: ({ error }) => (failure = error) });
  await result.consumeStream();
  if (failure) throw failure;
  return result;
}

async function finalText(job) {
  const messages = [];
  const texts = [];
  for (const content of QUESTIONS) {
    messages.push({ role: "user", content });
    const result = await answer(job, messages);
    messages.push(...(await result.response).messages);
    texts.push(await result.text);
  }
  return texts.join("\n");
}

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  ran.length = 0;
  let answer;
  try {
    answer = { text: await finalText(job) };
  } catch (error) {
    console.error(error);
    const said = error.responseBody ?? error.lastError?.responseBody ?? "";
    answer = { error: `${error.name}: ${error.message} ${said}`.slice(0, 1000) };
  }
  process.stdout.write(JSON.stringify({ ...answer, ran: [...ran] }) + "\n");
}
