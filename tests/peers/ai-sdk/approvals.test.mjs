// What becomes of questions that the AI SDK's client shows, answers and sends back.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { validateUIMessages } from 'ai';
import { Client } from '../lib/client.mjs';
import { kinds, recorded, recordedStream, shape, steps } from '../lib/meaning.mjs';
import { Person, database, deployed, eventually, fresh, posted, switched } from '../lib/stack.mjs';

const admin = await Person.signIn('lakeside', 'admin');

/** What the page loads is valid for the SDK and shows what the client shows. */
async function reloadsAsShown(client) {
  const stored = await client.stored();
  await validateUIMessages({ messages: stored });
  assert.deepEqual(shape(stored), shape(client.messages));
  assert.deepEqual(
    stored.map((message) => message.id),
    client.messages.map((message) => message.id),
  );
}

/** Outputs of one step may come in any order. */
function sorted(kinds) {
  const isOutput = (kind) => kind.startsWith('tool-output');
  const first = kinds.findIndex(isOutput);
  const outputs = kinds.filter(isOutput).sort();
  return first < 0 ? kinds : [...kinds.slice(0, first), ...outputs, ...kinds.slice(first + outputs.length)];
}

describe('one question', () => {
  test('a yes is sent back once, and its result goes on in the same message', async () => {
    const text = fresh('approved');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    assert.deepEqual(steps(client.messages), steps(recorded('05-approve').client.messagesBeforeAnswer));
    const asked = client.last;
    assert.equal(await client.answer(question, true), 1);
    assert.equal(client.last.id, asked.id);
    assert.deepEqual(steps(client.messages), steps(recorded('05-approve').client.messages));
    assert.deepEqual(kinds(await client.streamed(0)), kinds(recordedStream('05-approve.1')));
    assert.deepEqual(kinds(await client.streamed(1)), kinds(recordedStream('05-approve.2')));
    assert.equal(client.tools[0].toolCallId, asked.parts.at(-1).toolCallId);
    assert.equal(/** @type {{ ok: boolean }} */ (client.tools[0].output).ok, true);
    assert.match(client.last.parts.at(-1).text, /^Posted /);
    assert.equal(await posted(text), 1);
    await reloadsAsShown(client);
  });

  test('a client that sends nothing by itself is served when it is told to send', async () => {
    const text = fresh('by-hand');
    const client = new Client(admin, { automatic: false });
    const question = await client.ask(`post "${text}" to #general`);
    assert.equal(await client.answer(question, true), 0);
    assert.equal(client.tools[0].state, 'approval-responded');
    await client.chat.sendMessage();
    assert.equal(client.posts.length, 2);
    assert.deepEqual(steps(client.messages), steps(recorded('05-approve').client.messages));
    assert.equal(await posted(text), 1);
    await reloadsAsShown(client);
  });

  test('a no with its reason is sent back once, and nothing happens at the tool', async () => {
    const text = fresh('denied');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    assert.equal(await client.answer(question, false, 'Wrong list'), 1);
    const { messages } = recorded('06-deny-with-reason').client;
    assert.deepEqual(steps(client.messages), steps(messages));
    assert.deepEqual(kinds(await client.streamed(1)), kinds(recordedStream('06-deny-with-reason.2')));
    assert.equal((await admin.approval(question)).state, 'rejected');
    assert.equal(await posted(text), 0);
    await reloadsAsShown(client);
  });

  test('a card that was loaded from history can be answered', async () => {
    const text = fresh('loaded');
    const first = new Client(admin);
    const question = await first.ask(`post "${text}" to #general`);
    const client = new Client(admin, { id: first.id, messages: await first.stored() });
    assert.equal(await client.answer(question, true), 1);
    const { messages } = recorded('29-loaded-from-history-then-approved').client;
    assert.deepEqual(steps(client.messages), steps(messages));
    assert.equal(await posted(text), 1);
    await reloadsAsShown(client);
  });

  test('two clicks are one post and one effect', async () => {
    const text = fresh('twice');
    const client = new Client(admin);
    const id = await client.ask(`post "${text}" to #general`);
    const click = () => client.chat.addToolApprovalResponse({ id, approved: true });
    await Promise.all([click(), click()]);
    await client.rest();
    assert.equal(client.posts.length, 2);
    assert.equal(await posted(text), 1);
  });

  test('two windows that both say yes settle both cards with one effect', async () => {
    const text = fresh('windows');
    const one = new Client(admin);
    const question = await one.ask(`post "${text}" to #general`);
    const two = new Client(admin, { id: one.id, messages: await one.stored() });
    const posts = await Promise.all([one.answer(question, true), two.answer(question, true)]);
    assert.deepEqual(posts, [1, 1]);
    for (const client of [one, two]) {
      assert.deepEqual(steps(client.messages), steps(recorded('05-approve').client.messages));
      await reloadsAsShown(client);
    }
    assert.equal(await posted(text), 1);
  });
});

describe('two questions in one step', () => {
  for (const first of ['yes', 'no']) {
    test(`one yes and one no, the ${first} first`, async () => {
      const [wanted, unwanted] = [fresh('wanted'), fresh('unwanted')];
      const client = new Client(admin);
      await client.say(`post "${wanted}" to #general and "${unwanted}" to #staff`);
      const [yes, no] = client.questions;
      assert.ok(no, JSON.stringify(client.messages));
      const name = '08-two-writes-approve-one-deny-one';
      assert.deepEqual(kinds(await client.streamed(0)).toSorted(), kinds(recordedStream(`${name}.1`)).toSorted());
      const answers = [() => client.answer(yes, true), () => client.answer(no, false, 'No ink')];
      if (first === 'no') answers.reverse();
      assert.equal(await answers[0](), 0, 'it waits for both answers');
      assert.equal(await answers[1](), 1);
      assert.deepEqual(steps(client.messages), steps(recorded(name).client.messages));
      assert.deepEqual(sorted(kinds(await client.streamed(1))), sorted(kinds(recordedStream(`${name}.2`))));
      assert.deepEqual([await posted(wanted), await posted(unwanted)], [1, 0]);
      await reloadsAsShown(client);
    });
  }

  test('a read beside a write is told with the question', async () => {
    const text = fresh('mixed');
    const client = new Client(admin);
    const question = await client.ask(`read #staff and post "${text}" to #staff`);
    const name = '07-mixed-read-and-write';
    assert.deepEqual(kinds(await client.streamed(0)).toSorted(), kinds(recordedStream(`${name}.1`)).toSorted());
    assert.equal(await client.answer(question, true), 1);
    assert.deepEqual(steps(client.messages), steps(recorded(name).client.messages));
    assert.deepEqual(kinds(await client.streamed(1)).length, kinds(recordedStream(`${name}.2`)).length);
    assert.equal(await posted(text), 1);
    await reloadsAsShown(client);
  });
});

describe('questions one after another', () => {
  test('a second step asks again in the same message, and each yes is one post', async () => {
    const [one, two] = [fresh('one'), fresh('two')];
    const client = new Client(admin);
    const question = await client.ask(`post "${one}" to #general, then post "${two}" to #staff`);
    assert.equal(await client.answer(question, true), 1);
    const [second] = client.questions;
    assert.ok(second && second !== question, JSON.stringify(client.messages));
    assert.deepEqual([await posted(one), await posted(two)], [1, 0]);
    assert.deepEqual(kinds(await client.streamed(1)), [
      'start',
      'tool-output-available 0',
      'start-step',
      'tool-input-available 1',
      'tool-approval-request 1',
      'finish-step',
      'finish tool-calls',
    ]);
    assert.equal(await client.answer(second, true), 1);
    assert.deepEqual([await posted(one), await posted(two)], [1, 1]);
    assert.equal(client.messages.length, 2);
    assert.deepEqual(steps(client.messages), [
      'user: text(user)',
      'assistant: step-start output-available(yes) step-start output-available(yes) step-start text(done)',
    ]);
    await reloadsAsShown(client);
  });
});

describe('outcomes that are no success', () => {
  test('a tool that reports an error settles the card with its words', async () => {
    const text = fresh('error');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await switched({ 'mcp.demo.is_error': true }, async () => {
      assert.equal(await client.answer(question, true), 1);
    });
    assert.equal(client.tools[0].state, 'output-error');
    assert.equal(client.chat.status, 'ready');
    assert.equal(await posted(text), 0);
    await reloadsAsShown(client);
  });

  test('a read that fails is told as the recorded server tells it', async () => {
    const client = new Client(admin);
    await switched({ 'mcp.demo.is_error': true }, () => client.say('read #general'));
    assert.deepEqual(steps(client.messages), steps(recorded('12-tool-error').client.messages));
    assert.deepEqual(kinds(await client.streamed(0)), kinds(recordedStream('12-tool-error')));
    await reloadsAsShown(client);
  });

  test('an outcome that nobody knows settles the card and is never sent again', async () => {
    const text = fresh('unknown');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await switched({ 'mcp.demo.drop_reply_after_commit': true }, async () => {
      assert.equal(await client.answer(question, true), 1);
    });
    assert.equal(client.tools[0].state, 'output-error');
    assert.match(client.tools[0].errorText, /unknown|not known|check/i);
    assert.equal((await admin.approval(question)).state, 'unknown');
    // Whatever the client sends again, the call is not.
    await client.chat.sendMessage();
    assert.equal(client.posts.length, 3);
    assert.equal(await posted(text), 1);
    await reloadsAsShown(client);
    const { body } = await admin.send('POST', `/v1/approvals/${question}/resolve`, {
      outcome: 'done',
      reason: 'It stands in the channel.',
    });
    assert.equal(body.state, 'resolved_done');
  });

  test('a yes that comes too late settles the card and does nothing', async () => {
    const text = fresh('expired');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await expire(question);
    assert.equal(await client.answer(question, true), 1);
    assert.equal(client.tools[0].state, 'output-error');
    assert.equal((await admin.approval(question)).state, 'expired');
    assert.equal(await posted(text), 0);
    const stored = await client.stored();
    await validateUIMessages({ messages: stored });
    assert.equal(stored[1].parts.find((part) => part.toolCallId).errorText, client.tools[0].errorText);
  });
});

/** The time limit of a question passes. */
async function expire(id) {
  const table = deployed().chat.environment.TOSHI_TABLE;
  const { Items } = await database('Scan', {
    TableName: table,
    FilterExpression: 'approval_id = :id AND begins_with(SK, :rows)',
    ExpressionAttributeValues: { ':id': { S: id }, ':rows': { S: 'A' } },
  });
  assert.equal(Items.length, 1, JSON.stringify(Items));
  const [{ PK, SK, decide_by }] = Items;
  await database('UpdateItem', {
    TableName: table,
    Key: { PK, SK },
    UpdateExpression: 'SET decide_by = :over',
    ExpressionAttributeValues: { ':over': past(decide_by) },
  });
}

const past = (limit) => ({ N: String(Number(limit.N) - 7 * 24 * 3600 * 1000) });

describe('a decision that was made elsewhere', () => {
  for (const [decision, approved, state] of [
    ['approve', true, 'output-available(yes)'],
    ['reject', false, 'output-denied(no: Not today)'],
  ]) {
    test(`the same stale click after "${decision}" settles the card and tells the rest`, async () => {
      const text = fresh('elsewhere');
      const client = new Client(admin);
      const question = await client.ask(`post "${text}" to #general`);
      await admin.decide(question, decision, approved ? undefined : 'Not today');
      await eventually('the turn has ended', 20, async () => {
        const [, answer] = await client.stored();
        return answer.parts.at(-1).type === 'text';
      });
      assert.equal(await client.answer(question, approved, approved ? undefined : 'Not today'), 1);
      assert.deepEqual(steps(client.messages), [
        'user: text(user)',
        `assistant: step-start ${state} step-start text(done)`,
      ]);
      assert.equal(await posted(text), approved ? 1 : 0);
      await reloadsAsShown(client);
    });
  }

  test('a contradicting stale click is replaced by what is on record', async () => {
    const text = fresh('contradiction');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await admin.decide(question, 'reject', 'Not today');
    assert.equal(await client.answer(question, true), 1);
    assert.equal(client.tools[0].state, 'output-denied');
    assert.deepEqual(client.tools[0].approval.approved, false);
    assert.equal(await posted(text), 0);
    await reloadsAsShown(client);
  });

  test('a stale click is told of the question that has been asked since', async () => {
    const [one, two] = [fresh('one'), fresh('two')];
    const client = new Client(admin);
    const question = await client.ask(`post "${one}" to #general, then post "${two}" to #staff`);
    await admin.decide(question, 'approve');
    await eventually('the second question', 20, async () => {
      const [, answer] = await client.stored();
      return answer.parts.some((part) => part.state === 'approval-requested' && part.approval.id !== question);
    });
    assert.equal(await client.answer(question, true), 1);
    const [second] = client.questions;
    assert.ok(second, JSON.stringify(client.messages));
    assert.equal(await client.answer(second, false), 1);
    assert.deepEqual([await posted(one), await posted(two)], [1, 0]);
    await reloadsAsShown(client);
  });
});
