// Calls a tool once for each result of a corpus and prints those that the SDK refused.
//
// usage: typescript.mjs 1|2 legacy|modern URL TOOL CORPUS, in a folder with the SDK
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [major, era, url, tool, corpus] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const sdk = major === "1" ? "@modelcontextprotocol/sdk/client" : "@modelcontextprotocol/client";
const { Client } = await load(major === "1" ? `${sdk}/index.js` : sdk);
const { StreamableHTTPClientTransport } = await load(major === "1" ? `${sdk}/streamableHttp.js` : sdk);
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client({ name: "reader", version: "1" }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const refused = [];
for (const [index, result] of JSON.parse(readFileSync(corpus, "utf8")).entries()) {
  try {
    const made = await client.callTool({ name: tool, arguments: { result } });
    if (!Array.isArray(made.content)) throw new Error("no content");
  } catch (error) {
    refused.push([index, String(error).slice(0, 300)]);
  }
}
process.stdout.write(`${JSON.stringify(refused)}\n`, () => process.exit(0));
