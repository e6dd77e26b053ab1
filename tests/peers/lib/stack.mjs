// The running stack, as `infra/dev.py test` describes it to whoever tests it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

export const BASE = setting('TOSHI_TEST_BASE');

function setting(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: run these tests with make test-peers`);
  return value;
}

/** What was deployed: the emulator's address, the functions' environment. */
export function deployed() {
  return JSON.parse(readFileSync(join(setting('TOSHI_TEST_STATE'), 'stack.json'), 'utf8'));
}

/** Looks again and again until there is something; fails when the time is over. */
export async function eventually(what, seconds, look) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < deadline, `not within ${seconds} s: ${what}`);
    await pause(50);
  }
}

/** Different at every call and in every run, so that effects are counted by their text. */
export const fresh = (word) => `${word}-${randomUUID()}`;

async function sandbox(method, path, body) {
  const answer = await fetch(`${BASE}/_sandbox${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text;
}

export const token = (tenant, as) => sandbox('POST', '/token', { tenant, as });

/** Sets switches of the sandbox while `during` runs. */
export async function switched(switches, during) {
  await sandbox('PUT', '/switches', switches);
  try {
    return await during();
  } finally {
    const off = Object.fromEntries(Object.keys(switches).map((name) => [name, null]));
    await sandbox('PUT', '/switches', off);
  }
}

/** How often this text was posted at the demo workspace. */
export async function posted(text) {
  const calls = JSON.parse(await sandbox('GET', '/mcp/calls'));
  return calls.filter((call) => call.tool === 'post_message' && call.arguments.text === text).length;
}

/** Someone who is signed in. */
export class Person {
  constructor(token) {
    this.headers = { authorization: `Bearer ${token}` };
  }

  static async signIn(school, who) {
    return new Person(await token(school, who));
  }

  async send(method, path, body) {
    const answer = await fetch(`${BASE}${path}`, {
      method,
      headers: { ...this.headers, 'content-type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, body: text && JSON.parse(text) };
  }

  async get(path) {
    const answer = await this.send('GET', path);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  approval(id) {
    return this.get(`/v1/approvals/${id}`);
  }

  async decide(id, decision, reason) {
    const answer = await this.send('POST', `/v1/approvals/${id}/decision`, { decision, reason });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  /** The approval when it has this state. */
  until(id, state, seconds = 20) {
    return eventually(`${id} is ${state}`, seconds, async () => {
      const row = await this.approval(id);
      return row.state === state && row;
    });
  }
}

/** A request to the emulator's database, which reads no more than the scope of a signature. */
export async function database(action, body) {
  const { emulator, region } = deployed();
  const scope = `test/20260101/${region}/dynamodb/aws4_request`;
  const answer = await fetch(emulator, {
    method: 'POST',
    headers: {
      authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=0`,
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `DynamoDB_20120810.${action}`,
    },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, text);
  return JSON.parse(text);
}
