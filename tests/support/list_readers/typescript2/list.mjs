// Lists everything of an endpoint: node list.mjs URL auto|legacy. Prints an object of names by list, or the error of a list.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client({ name: "lister", version: "1" }, { versionNegotiation: { mode: process.argv[3] } });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const names = async (ask, member) => {
  try {
    return (await ask())[member].map((entry) => entry.name);
  } catch (error) {
    return String(error).slice(0, 2000);
  }
};
const found = {
  tools: await names(() => client.listTools(), "tools"),
  prompts: await names(() => client.listPrompts(), "prompts"),
  resources: await names(() => client.listResources(), "resources"),
  templates: await names(() => client.listResourceTemplates(), "resourceTemplates"),
};
process.stdout.write(JSON.stringify(found) + "\n", () => process.exit(0));
