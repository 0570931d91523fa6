// A server over stdio whose tools answer with long results of every shape that the official SDK of TypeScript is given
// by its examples: text, JSON as text, structured content with either, several blocks, embedded resources, images.
//
//   node typescript.mjs FOLDER      the SDK, of either major version, is installed in FOLDER
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const one = "@modelcontextprotocol/sdk" in JSON.parse(readFileSync(`${folder}/package.json`, "utf8")).dependencies;
const { McpServer } = await load(one ? "@modelcontextprotocol/sdk/server/mcp.js" : "@modelcontextprotocol/server");
const { StdioServerTransport } = await load(
  one ? "@modelcontextprotocol/sdk/server/stdio.js" : "@modelcontextprotocol/server/stdio",
);
const { z } = await load("zod");

const part = (number) => (number === 2000 ? "keel" : "mast");
const numbers = Array.from({ length: 3000 }, (_, index) => index + 1);
const lines = numbers.map((number) => `line ${number}: the ${part(number)} is of oak`);
const rows = numbers.map((number) => ({ id: number, part: part(number) }));
const log = lines.join("\n");
const text = (said) => ({ type: "text", text: said });
const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const row = z.object({ id: z.number(), part: z.string() });

const server = new McpServer({ name: "shapes", version: "1" });
const give = (name, result, outputSchema) =>
  server.registerTool(name, { description: name, ...(outputSchema ? { outputSchema } : {}) }, async () => result);
give("text", { content: [text(log)] });
give("json_text", { content: [text(JSON.stringify({ rows }))] });
give("object", { content: [text(JSON.stringify({ rows }))], structuredContent: { rows } }, z.object({ rows: z.array(row) }));
give("wrapped", { content: [text(log)], structuredContent: { content: log } }, z.object({ content: z.string() }));
give("summary", { content: [text("3,000 parts")], structuredContent: { rows } }, z.object({ rows: z.array(row) }));
give("count", { content: [text(log)], structuredContent: { lines: 3000 } }, z.object({ lines: z.number() }));
give("minified", { content: [text(lines.join(";"))] });
give("several", { content: [text(lines.slice(0, 1500).join("\n")), text(lines.slice(1500).join("\n"))] });
give("embedded", { content: [{ type: "resource", resource: { uri: "file:///log", text: log } }] });
give("mixed", { content: [text(log), { type: "image", data, mimeType: "image/png" }] });
await server.connect(new StdioServerTransport());
