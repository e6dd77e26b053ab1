// Signs in at oidc-provider's own pages as a browser would: redirects, cookies, forms; and PKCE.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { CLIENT } from './issuer.mjs';

const random = () => randomBytes(32).toString('base64url');

const form = (fields) => ({
  method: 'POST',
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: new URLSearchParams(fields),
});

/** Requests with the cookies of one browser, redirects not followed. */
class Browser {
  cookies = new Map();

  async open(url, init = {}) {
    const cookie = [...this.cookies].map((pair) => pair.join('=')).join('; ');
    const answer = await fetch(url, { ...init, redirect: 'manual', headers: { ...init.headers, cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      if (value) this.cookies.set(name, value);
      else this.cookies.delete(name);
    }
    const location = answer.headers.get('location');
    return { status: answer.status, text: await answer.text(), next: location && new URL(location, url).href };
  }
}

async function discover(issuer) {
  const answer = await fetch(`${issuer.url}/.well-known/openid-configuration`);
  return answer.json();
}

/** What came back to the redirect address. */
async function authorize(document, verifier, login, more) {
  const state = random();
  const query = new URLSearchParams({
    client_id: CLIENT.id,
    redirect_uri: CLIENT.redirect,
    response_type: 'code',
    scope: 'openid chat',
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...more,
  });
  const browser = new Browser();
  let page = await browser.open(`${document.authorization_endpoint}?${query}`);
  let here = '';
  for (let hop = 0; hop < 10; hop += 1) {
    if (page.next?.startsWith(CLIENT.redirect)) {
      const back = Object.fromEntries(new URL(page.next).searchParams);
      assert.equal(back.state, state);
      assert.equal(back.iss, document.issuer);
      return back;
    }
    if (page.next) {
      here = page.next;
      page = await browser.open(here);
      continue;
    }
    const prompt = page.text.match(/name="prompt" value="(login|consent)"/)?.[1];
    assert.ok(prompt, `no form: ${page.status} ${page.text}`);
    page = await browser.open(here, form({ prompt, login, password: 'any' }));
  }
  assert.fail('too many redirects');
}

async function token(document, fields) {
  const answer = await fetch(document.token_endpoint, form({ client_id: CLIENT.id, ...fields }));
  const body = /** @type {any} */ (await answer.json());
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body;
}

/** The tokens of someone who signs in with this name; `resource` is the API that they are for. */
export async function signIn(issuer, login, resource) {
  const document = await discover(issuer);
  const verifier = random();
  const more = resource ? { resource } : {};
  const { code } = await authorize(document, verifier, login, more);
  return token(document, {
    grant_type: 'authorization_code',
    code,
    code_verifier: verifier,
    redirect_uri: CLIENT.redirect,
    ...more,
  });
}

export async function refresh(issuer, refresh_token) {
  return token(await discover(issuer), { grant_type: 'refresh_token', refresh_token });
}
