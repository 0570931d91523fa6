// A client with the OAuth of the TypeScript SDK: signs a person in, lists and calls tools, and refreshes its token.
// Arguments: URL of the MCP endpoint, URL of the client's document or '', name of the tool.
// Lines of standard output: {open: URL} for the person's browser, then {tools, text, refreshed}.
import { createServer } from 'node:http';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, documentUrl, tool] = process.argv.slice(2);
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const kept = {};
let answered;
const answer = new Promise((resolve) => { answered = resolve; });
const listener = createServer((request, response) => {
  answered(new URL(request.url, 'http://localhost').searchParams);
  response.end('done');
});
await new Promise((resolve) => { listener.listen(0, 'localhost', resolve); });
const redirectUrl = `http://localhost:${listener.address().port}/callback`;

const authProvider = {
  redirectUrl,
  clientMetadataUrl: documentUrl || undefined,
  clientMetadata: {
    redirect_uris: [redirectUrl],
    client_name: 'TypeScript SDK',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  state: () => 'a state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  redirectToAuthorization: (page) => say({ open: page.href }),
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
};

async function connected() {
  const client = new Client({ name: 'typescript', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth((await answer).get('code'));
    return connected();
  }
  return client;
}

const client = await connected();
const first = kept.tokens;
const { tools } = await client.listTools();
kept.tokens = { ...first, access_token: `${first.access_token}x` };  // as good as expired
const { content } = await client.callTool({ name: tool, arguments: { item: 'tea' } });
const refreshed = kept.tokens.refresh_token !== first.refresh_token;
say({ tools: tools.map(({ name }) => name), text: content[0].text, refreshed, client: kept.client.client_id });
await client.close();
listener.close();
