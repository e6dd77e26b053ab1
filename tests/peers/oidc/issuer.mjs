// oidc-provider as a school's identity provider: JWT access tokens, PKCE, rotating refresh tokens.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import http from 'node:http';
import { Provider } from 'oidc-provider';

export const CLIENT = { id: 'school-app', redirect: 'http://127.0.0.1:4999/signed-in' };
const SCOPE = 'chat';

const PAIRS = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
};

function signingKey(alg) {
  const jwk = PAIRS[alg]().privateKey.export({ format: 'jwk' });
  return { ...jwk, alg, use: 'sig', kid: randomBytes(8).toString('hex') };
}

/** Everything is in memory: keys, grants and sessions are new at each start. */
export class Issuer {
  /** How often its keys were asked for since it was made. */
  fetches = 0;

  constructor(audience, alg) {
    this.audience = audience;
    this.alg = alg;
  }

  static async start(audience, alg = 'RS256') {
    const issuer = new Issuer(audience, alg);
    await issuer.listen(0);
    return issuer;
  }

  async listen(port) {
    this.server = http.createServer();
    await new Promise((done) => this.server.listen(port, '127.0.0.1', () => done(undefined)));
    const address = this.server.address();
    this.port = typeof address === 'object' && address.port;
    this.url = `http://127.0.0.1:${this.port}`;
    const callback = this.provider().callback();
    this.server.on('request', (request, response) => {
      if (request.url === '/jwks') this.fetches += 1;
      // Whoever comes back after a restart must not meet a connection of before.
      response.setHeader('connection', 'close');
      callback(request, response);
    });
  }

  provider() {
    const { audience, alg } = this;
    return new Provider(this.url, {
      jwks: { keys: [signingKey(alg)] },
      cookies: { keys: [randomBytes(16).toString('hex')] },
      clients: [
        {
          client_id: CLIENT.id,
          redirect_uris: [CLIENT.redirect],
          application_type: 'native',
          token_endpoint_auth_method: 'none',
          grant_types: ['authorization_code', 'refresh_token'],
          id_token_signed_response_alg: alg,
        },
      ],
      scopes: ['openid', 'offline_access', SCOPE],
      ttl: { AccessToken: 3600, IdToken: 3600, RefreshToken: 7200, Grant: 7200, Session: 7200, Interaction: 600 },
      pkce: { required: () => true },
      rotateRefreshToken: true,
      issueRefreshToken: async () => true,
      // The name that someone signs in with is their subject.
      findAccount: async (_, sub) => ({ accountId: sub, claims: async () => ({ sub }) }),
      // A school's provider may say which school is meant: `name@school` signs in for it.
      extraTokenClaims: async (_, token) => {
        const school = token.accountId?.split('@')[1];
        return school ? { tenant: school } : undefined;
      },
      features: {
        devInteractions: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: async () => audience,
          useGrantedResource: async () => true,
          getResourceServerInfo: async (_, resource) => ({
            scope: SCOPE,
            audience: resource,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg } },
          }),
        },
      },
    });
  }

  /** Is away; its address stays its own. */
  async stop() {
    await new Promise((done) => {
      this.server.close(done);
      this.server.closeAllConnections();
    });
  }

  /** New keys, and the old ones are published no more. */
  async rotate() {
    await this.stop();
    await this.listen(this.port);
  }
}
