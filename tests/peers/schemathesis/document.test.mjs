// Schemathesis makes requests from the OpenAPI document and holds the answers against it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from '../lib/client.mjs';
import { BASE, Person, fresh, token } from '../lib/stack.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const program = fileURLToPath(new URL('../../../.venv/peers/bin/schemathesis', import.meta.url));

/** Runs it; how many requests it made. Its whole output is the failure's text. */
async function schemathesis(config, settings, ...options) {
  const run = ['--config-file', config, 'run', `${BASE}/v1/openapi.json`, ...options];
  const child = spawn(program, run, {
    cwd: here,
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const code = await new Promise((done) => child.on('close', done));
  assert.equal(code, 0, output);
  return Number(output.match(/(\d+) generated/)?.[1]);
}

test('every route answers as the document says, and nobody else than who signed in', async () => {
  const made = await schemathesis('all.toml', { TOSHI_TEST_TOKEN: await token('lakeside', 'admin') });
  assert.ok(made > 200, `only ${made} requests were made`);
});

test('so do the routes of an approval and a conversation that exist', async () => {
  const client = new Client(await Person.signIn('hilltop', 'admin'));
  const question = await client.ask(`post "${fresh('fuzzed')}" to #general`);
  const settings = {
    TOSHI_TEST_TOKEN: await token('hilltop', 'admin'),
    TOSHI_TEST_APPROVAL: question,
    TOSHI_TEST_CONVERSATION: client.id,
  };
  const made = await schemathesis('one.toml', settings, '--include-path-regex', '{id}', '--exclude-method', 'DELETE');
  assert.ok(made > 50, `only ${made} requests were made`);
  assert.notEqual((await client.person.approval(question)).state, 'pending', 'a decision was made');
});
