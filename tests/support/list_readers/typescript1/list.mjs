// Lists everything of an endpoint: node list.mjs URL. Prints an object of names by list, or the error of a list.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "lister", version: "1" });
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
