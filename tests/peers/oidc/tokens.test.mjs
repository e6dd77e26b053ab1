// Access tokens of a real identity provider, at our API.
import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { putPerson, putSchool } from '../lib/rows.mjs';
import { Person, eventually } from '../lib/stack.mjs';
import { Issuer } from './issuer.mjs';
import { refresh, signIn } from './sign-in.mjs';

const AUDIENCE = 'https://api.brookside.test';
/** Processes that may each ask for an issuer's keys: those of the chat, and those of the API. */
const PROCESSES = 12;

// Nobody has seen this school before, so nothing of it is remembered anywhere.
const school = `brook-${randomUUID().slice(0, 8)}`;
const issuer = await Issuer.start(AUDIENCE);
const curves = await Issuer.start(AUDIENCE, 'ES256');
const away = await Issuer.start(AUDIENCE);
const stranger = await Issuer.start(AUDIENCE);
const issuers = [issuer, curves, away].map(({ url }) => ({ issuer: url, audience: AUDIENCE }));
await putSchool(school, issuers);
for (const { issuer } of issuers) await putPerson(school, issuer, 'ann', 'teacher');
await putPerson(school, issuer.url, 'ann@lakeside', 'teacher');
after(() => Promise.allSettled([issuer, curves, away, stranger].map((one) => one.stop())));

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const decode = (token) => token.split('.').slice(0, 2).map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()));

/** Status and code of an answer to this token, at the API and at the chat, which are two functions. */
async function refused(token) {
  const [api, chat] = await toldByEach(token);
  assert.equal(api, chat);
  return api;
}

async function toldByEach(token) {
  const person = new Person(token);
  const answers = [await person.send('GET', '/v1/me'), await person.send('GET', '/v1/conversations')];
  return answers.map(({ status, body }) => `${status} ${body.code}`);
}

async function accepted(token) {
  const person = new Person(token);
  const me = await person.send('GET', '/v1/me');
  const chat = await person.send('GET', '/v1/conversations');
  return me.status === 200 && chat.status === 200 && me.body;
}

describe('a token of the school', () => {
  test('it lets its person in, with the role that the school says', async () => {
    const { access_token } = await signIn(issuer, 'ann');
    const [head, claims] = decode(access_token);
    assert.deepEqual([head.typ, head.alg, claims.aud, claims.sub], ['at+jwt', 'RS256', AUDIENCE, 'ann']);
    const me = await accepted(access_token);
    assert.equal(me.role, 'teacher');
    assert.equal(me.tenant.id, school);
  });

  test('it may be signed on a curve, and renewed', async () => {
    const { access_token, refresh_token } = await signIn(curves, 'ann');
    assert.equal(decode(access_token)[0].alg, 'ES256');
    assert.ok(await accepted(access_token));
    const renewed = await refresh(curves, refresh_token);
    assert.notEqual(renewed.access_token, access_token);
    assert.ok(await accepted(renewed.access_token));
  });
});

describe('a token that is not for us', () => {
  test('an expired one', async (t) => {
    // The whole sign-in was an hour ago.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 3600_000 * 2 });
    const { access_token } = await signIn(issuer, 'ann');
    t.mock.timers.reset();
    assert.equal(await refused(access_token), '401 token_expired');
  });

  test('one for another API of the same provider', async () => {
    const { access_token } = await signIn(issuer, 'ann', 'https://library.brookside.test');
    assert.equal(await refused(access_token), '401 wrong_audience');
  });

  test('an ID token in its place', async () => {
    const { id_token } = await signIn(issuer, 'ann');
    assert.equal(await refused(id_token), '401 wrong_audience');
  });

  test('a token of a provider that nobody listed, whose keys are never asked for', async () => {
    const { access_token } = await signIn(stranger, 'ann');
    assert.equal(await refused(access_token), '401 token_invalid');
    assert.equal(stranger.fetches, 0);
  });

  test('a person of no school, and one who names another school, told only when signed', async () => {
    const tokens = { bob: '401 unknown_person', 'ann@lakeside': '403 wrong_tenant' };
    for (const [login, code] of Object.entries(tokens)) {
      const { access_token } = await signIn(issuer, login);
      // A process keeps the list of all schools' providers for five minutes: until it has read of
      // this one, it cannot check the signature.
      const told = await toldByEach(access_token);
      assert.ok(told.every((one) => [code, '401 token_invalid'].includes(one)), told.join(', '));
      const [head, claims] = access_token.split('.');
      const forged = `${head}.${claims}.${Buffer.alloc(256, 1).toString('base64url')}`;
      assert.equal(await refused(forged), '401 token_invalid');
    }
  });
});

describe('a forged token', () => {
  test('with no signature, a shared secret, altered claims, or two at once', async () => {
    const { access_token } = await signIn(issuer, 'ann');
    const [head, claims] = decode(access_token);
    const [, , signature] = access_token.split('.');
    const { keys } = await (await fetch(`${issuer.url}/jwks`)).json();
    const none = `${encode({ ...head, alg: 'none' })}.${encode(claims)}`;
    const shared = `${encode({ ...head, alg: 'HS256' })}.${encode(claims)}`;
    const secret = createHmac('sha256', JSON.stringify(keys[0])).update(shared).digest('base64url');
    for (const forged of [
      `${none}.`,
      `${none}.${signature}`,
      `${shared}.${secret}`,
      `${encode(head)}.${encode({ ...claims, sub: 'bob' })}.${signature}`,
      `${encode({ ...head, jwk: keys[0] })}.${encode(claims)}.${signature}`,
      'nothing',
    ]) {
      assert.equal(await refused(forged), '401 token_invalid', forged);
    }
    assert.ok(await accepted(access_token));
  });
});

describe('keys', () => {
  test('an unknown key is asked for seldom, however many tokens name one', async () => {
    const { access_token } = await signIn(curves, 'ann');
    assert.ok(await accepted(access_token));
    const [head, claims] = decode(access_token);
    const before = curves.fetches;
    const [, , signature] = access_token.split('.');
    for (let n = 0; n < 40; n += 1) {
      const forged = `${encode({ ...head, kid: `made-up-${n}` })}.${encode(claims)}.${signature}`;
      assert.equal(await refused(forged), '401 token_invalid');
    }
    assert.ok(curves.fetches - before <= PROCESSES, `${curves.fetches - before} fetches`);
  });

  test('a new key is found by itself, and what the old one signed is then refused', async () => {
    const old = await signIn(issuer, 'ann');
    assert.ok(await accepted(old.access_token));
    await issuer.rotate();
    const before = issuer.fetches;
    const { access_token } = await signIn(issuer, 'ann');
    assert.notEqual(decode(access_token)[0].kid, decode(old.access_token)[0].kid);
    await eventually('the new key is known', 60, () => accepted(access_token));
    assert.ok(issuer.fetches - before <= PROCESSES, `${issuer.fetches - before} fetches`);
    await eventually('the old key is forgotten', 60, async () => {
      const api = await new Person(old.access_token).send('GET', '/v1/me');
      return api.body.code === 'token_invalid';
    });
  });

  test('a provider that is away: known keys serve on, and nothing else is believed', async () => {
    const { access_token } = await signIn(issuer, 'ann');
    const unseen = await signIn(away, 'ann');
    await eventually('its key is known', 60, () => accepted(access_token));
    await Promise.all([issuer.stop(), away.stop()]);
    assert.ok(await accepted(access_token));
    const [head, claims] = decode(access_token);
    const [, , signature] = access_token.split('.');
    const unknown = `${encode({ ...head, kid: 'made-up' })}.${encode(claims)}.${signature}`;
    assert.equal(await refused(unknown), '401 token_invalid');
    assert.equal(await refused(unseen.access_token), '503 unavailable');
  });
});
