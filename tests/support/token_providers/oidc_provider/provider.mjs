// The authorization server `oidc-provider`, with token exchange (RFC 8693) by its own extension point, for
// access tokens and identity assertions (ID-JAG).
//
//   node provider.mjs CONFIGURATION      a JSON file: issuer, address, port and clients
//
// Prints a line of JSON when it listens, and one for each token request: who asked for what, and the error it got.
// POST /settings-of-test sets gateway, resources, grants, skew, groups by person, and ids of clients by audience of
// assertions (`oidc_provider` in tokenproviders.py), and prints a mark with its number.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from "jose";
import Provider, { errors } from "oidc-provider";

const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const TYPES = "urn:ietf:params:oauth:token-type:";
const configuration = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { issuer, address, port } = configuration;
let settings = { gateway: "", resources: {}, grants: {}, skew: 0, groups: {}, clients: {} };

const Real = Date;
globalThis.Date = class extends Real {
  constructor(...words) {
    super(...(words.length ? words : [Real.now() + settings.skew * 1000]));
  }
  static now() {
    return Real.now() + settings.skew * 1000;
  }
};

const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
const named = { alg: "RS256", use: "sig", kid: "first" };
const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), ...named }] });
const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);
const resourceServer = (resource) => {
  if (!(resource in settings.resources)) throw new errors.InvalidTarget();
  const { scope, lifetime } = settings.resources[resource];
  return { scope, audience: resource, accessTokenTTL: lifetime, accessTokenFormat: "jwt" };
};

// the flow of people, on this machine, and the gateway's, which may be in a cluster, go by different names of one server
const provider = new Provider(issuer, {
  clients: configuration.clients,
  cookies: { keys: ["a key of a test"] },
  jwks: { keys: [{ ...(await exportJWK(privateKey)), ...named }] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  responseTypes: ["code"],
  ttl: {
    AccessToken: (_, token) => token.resourceServer?.accessTokenTTL ?? 600,
    ClientCredentials: (_, token) => token.resourceServer?.accessTokenTTL ?? 600,
    Grant: 600,
    IdToken: 600,
    Interaction: 600,
    RefreshToken: 600,
    Session: 600,
  },
  clientAuthMethods: ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"],
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => resourceServer(resource),
    },
  },
  extraTokenClaims: (ctx, token) => ({
    ...(ctx.oidc.exchanging ? { act: { sub: token.clientId } } : {}),
    ...(token.accountId in settings.groups ? { groups: settings.groups[token.accountId] } : {}),
  }),
});

// draft-ietf-oauth-identity-assertion-authz-grant section 4.3
const assertion = async (person, client, { audience, resource, scope }) => {
  if (typeof audience !== "string" || !(settings.grants[person] ?? []).includes(audience)) {
    throw new errors.InvalidTarget(`${person} may not go to this audience`);
  }
  const claims = {
    client_id: settings.clients[audience] ?? client,
    resource,
    scope,
    email: `${person}@example.com`,
    groups: settings.groups[person] ?? [],
  };
  const signed = await new SignJWT(claims)
    .setProtectedHeader({ alg: "RS256", kid: "first", typ: "oauth-id-jag+jwt" })
    .setIssuer(issuer)
    .setSubject(person)
    .setAudience(audience)
    .setJti(randomUUID())
    .setIssuedAt()
    .setExpirationTime("300s")
    .sign(privateKey);
  return { access_token: signed, issued_token_type: `${TYPES}id-jag`, token_type: "N_A", expires_in: 300, scope };
};

const exchange = async (ctx) => {
  const { params, client } = ctx.oidc;
  if (!params.subject_token || !params.subject_token_type) throw new errors.InvalidRequest("subject_token is missing");
  const ofClient = params.subject_token_type === `${TYPES}id_token`; // others are access tokens of the gateway
  if (!ofClient && ![`${TYPES}access_token`, `${TYPES}jwt`].includes(params.subject_token_type)) {
    throw new errors.InvalidRequest("subject_token_type is not supported");
  }
  const audience = ofClient ? client.clientId : settings.gateway;
  let subject;
  try {
    ({ payload: subject } = await jwtVerify(params.subject_token, keys, { issuer, audience }));
  } catch {
    throw new errors.InvalidRequest("subject_token is not valid");
  }
  ctx.oidc.person = subject.sub;
  if (params.requested_token_type === `${TYPES}id-jag`) {
    ctx.body = await assertion(subject.sub, client.clientId, params);
    return;
  }
  const resource = params.resource ?? params.audience;
  if (typeof resource !== "string") throw new errors.InvalidTarget();
  const info = resourceServer(resource);
  if (!(settings.grants[subject.sub] ?? []).includes(resource)) {
    throw new errors.AccessDenied(`${subject.sub} has not consented to ${client.clientId}`);
  }
  const token = new ctx.oidc.provider.AccessToken({
    accountId: subject.sub,
    client,
    clientId: client.clientId,
    scope: (params.scope ?? info.scope).split(" ").filter((scope) => info.scope.split(" ").includes(scope)).join(" "),
  });
  token.resourceServer = new ctx.oidc.provider.ResourceServer(resource, info);
  ctx.oidc.exchanging = true;
  ctx.body = {
    access_token: await token.save(),
    issued_token_type: `${TYPES}access_token`,
    token_type: "Bearer",
    expires_in: info.accessTokenTTL,
    scope: token.scope,
  };
};
const parameters = ["subject_token", "subject_token_type", "actor_token", "actor_token_type"];
provider.registerGrantType(
  EXCHANGE,
  exchange,
  [...parameters, "resource", "audience", "scope", "requested_token_type"],
  ["resource", "audience"],
);

const told = (ctx, error) => {
  const { params, client, person } = ctx.oidc ?? {};
  const { grant_type, resource, audience, scope, subject_token_type: type } = params ?? {};
  const wanted = { grant_type, type, resource, audience, scope };
  say({ event: "grant", client: client?.clientId, person, ...wanted, error: error?.message });
};
provider.on("grant.success", (ctx) => told(ctx));
provider.on("grant.error", (ctx, error) => told(ctx, error));
provider.on("server_error", (_, error) => say({ event: "error", error: String(error.stack) }));
const handle = provider.callback();
const configure = async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const { number, ...changes } = JSON.parse(body);
  settings = { ...settings, ...changes };
  say({ event: "mark", number });
  response.end();
};
const answer = (request, response) => {
  if (request.url === "/settings-of-test") return configure(request, response);
  response.setHeader("Date", new Date().toUTCString()); // by the provider's clock
  return handle(request, response);
};
createServer(answer).listen(port, address, () => say({ event: "listening" }));
