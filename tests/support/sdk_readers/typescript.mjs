// Reads an endpoint with the official SDK of TypeScript, of either major version, which is installed in FOLDER:
//
//   node typescript.mjs FOLDER list URL MODE              prints names by list, or the error of a list
//   node typescript.mjs FOLDER call URL MODE TOOL CORPUS  calls a tool once for each result of a file, and prints the
//                                                         indices of those that were refused, with the errors
//
// MODE is legacy or modern; version 1 has legacy alone.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, verb, url, mode, tool, corpus] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const one = "@modelcontextprotocol/sdk" in JSON.parse(readFileSync(`${folder}/package.json`, "utf8")).dependencies;
const { Client } = await load(one ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await load(
  one ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client",
);
const versions = { mode: mode === "modern" ? { pin: "2026-07-28" } : "legacy" };
const client = new Client({ name: "reader", version: "1" }, { versionNegotiation: versions });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const names = async (ask, member) => {
  try {
    return (await ask())[member].map((entry) => entry.name);
  } catch (error) {
    return String(error).slice(0, 2000);
  }
};

const lists = async () => ({
  tools: await names(() => client.listTools(), "tools"),
  prompts: await names(() => client.listPrompts(), "prompts"),
  resources: await names(() => client.listResources(), "resources"),
  templates: await names(() => client.listResourceTemplates(), "resourceTemplates"),
});

const refusals = async () => {
  const refused = [];
  for (const [index, result] of JSON.parse(readFileSync(corpus, "utf8")).entries()) {
    try {
      const read = await client.callTool({ name: tool, arguments: { result } });
      if (!Array.isArray(read.content)) throw new Error("no content");
    } catch (error) {
      refused.push([index, String(error).slice(0, 300)]);
    }
  }
  return refused;
};

const answer = await (verb === "list" ? lists() : refusals());
process.stdout.write(JSON.stringify(answer) + "\n", () => process.exit(0));
