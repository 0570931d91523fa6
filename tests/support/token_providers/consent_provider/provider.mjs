// The authorization server `oidc-provider` for persons who consent: dynamic registration (RFC 7591), documents about
// clients, resource indicators (RFC 8707), rotation of refresh tokens, revocation (RFC 7009), `iss` in its answers
// (RFC 9207).
//
//   node provider.mjs CONFIGURATION      a JSON file: issuer, address, port, resources {URL: scopes}
//
// Prints a line of JSON when it listens, and one for each token request, registration and ended consent.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { exportJWK, generateKeyPair } from "jose";
import Provider, { errors } from "oidc-provider";

const { issuer, address, port, resources } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);
const scopes = Object.values(resources).flatMap((scope) => scope.split(" "));

const provider = new Provider(issuer, {
  cookies: { keys: ["a key of a test"] },
  jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: "RS256", use: "sig", kid: "first" }] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  responseTypes: ["code"],
  scopes: ["openid", "offline_access", ...new Set(scopes)],
  ttl: { AccessToken: 600, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 600 },
  clientAuthMethods: ["client_secret_basic", "client_secret_post", "none"],
  fetch: (url, { dispatcher, ...options }) => fetch(url, options), // documents are on this machine in tests
  features: {
    devInteractions: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: "draft-02" },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => false,
      getResourceServerInfo: (_, resource) => {
        if (!(resource in resources)) throw new errors.InvalidTarget();
        return { scope: resources[resource], audience: resource, accessTokenTTL: 600, accessTokenFormat: "jwt" };
      },
    },
  },
});

const tell = (event) => (ctx, error) => {
  const { grant_type, resource, token_type_hint } = ctx.oidc?.params ?? {};
  const client = ctx.oidc?.client?.clientId;
  say({ event, client, grant_type, resource, token_type_hint, error: error?.message });
};
provider.on("grant.success", tell("grant"));
provider.on("grant.error", tell("grant"));
provider.on("grant.revoked", tell("ended"));
provider.on("registration_create.success", (ctx, client) => say({ event: "registered", metadata: client.metadata() }));
provider.on("registration_create.error", tell("registration refused"));
provider.on("server_error", (_, error) => say({ event: "error", error: String(error.stack) }));
createServer(provider.callback()).listen(port, address, () => say({ event: "listening" }));
