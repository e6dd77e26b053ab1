// Messages of the AI SDK's client that come late, again, with another text, or twice.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { validateUIMessages } from 'ai';
import { Client } from '../lib/client.mjs';
import { kinds, recorded, recordedStream, shape, steps } from '../lib/meaning.mjs';
import { Person, eventually, fresh, posted, switched } from '../lib/stack.mjs';

const admin = await Person.signIn('hilltop', 'admin');
const teacher = await Person.signIn('hilltop', 'teacher');

const ids = (messages) => messages.map((message) => message.id);

/** A page that was opened now. */
async function reloaded(client, options) {
  const messages = await client.stored();
  await validateUIMessages({ messages });
  return new Client(client.person, { id: client.id, messages, ...options });
}

/** What the page shows when `fits` holds. */
function shownWhen(client, what, fits) {
  return eventually(what, 20, async () => {
    const stored = await client.stored();
    return fits(stored) && stored;
  });
}

test('plain words and reads look as from the recorded server', async () => {
  const plain = new Client(teacher);
  await plain.say('hello');
  assert.deepEqual(steps(plain.messages), steps(recorded('01-plain').client.messages));
  assert.deepEqual(kinds(await plain.streamed(0)), kinds(recordedStream('01-plain')));
  const reading = new Client(admin);
  await reading.say('read #general');
  assert.deepEqual(kinds(await reading.streamed(0)), kinds(recordedStream('03-read-tool')));
  assert.deepEqual(steps(reading.messages), steps(recorded('03-read-tool').client.messages));
  assert.deepEqual([plain.finished, reading.finished], ['stop', 'stop']);
});

describe('a message while a question waits', () => {
  test('it is answered in a message of its own, and the question stays open', async () => {
    const text = fresh('pending');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await client.say('hello');
    assert.equal(client.posts.length, 2);
    assert.equal(client.messages.length, 4);
    assert.deepEqual(kinds(await client.streamed(1)), kinds(recordedStream('20-next-message-while-pending.2')));
    assert.deepEqual(client.questions, [question]);
    assert.equal((await admin.approval(question)).state, 'pending');
    assert.equal(await posted(text), 0);
  });

  test('a late answer rides with the next message and does not touch the old one', async () => {
    const text = fresh('late');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await client.say('hello');
    assert.equal(await client.answer(question, true), 0, 'nothing is sent by itself');
    await client.say('hello again');
    assert.equal(client.posts.length, 3);
    const told = kinds(await client.streamed(2));
    assert.deepEqual(told.filter((kind) => kind.startsWith('tool-')), []);
    assert.equal(client.messages.length, 6);
    assert.equal(new Set(ids(client.messages)).size, 6);
    await admin.until(question, 'succeeded');
    const outcome = (stored) => stored.some((message) => message.parts.some((part) => part.text?.startsWith(`Posted “${text}”`)));
    const stored = await shownWhen(client, 'its outcome', outcome);
    assert.equal(stored[1].parts.find((part) => part.toolCallId).state, 'output-available');
    // The old answer is posted again with every message, and changes nothing.
    await client.say('hello once more');
    assert.equal(client.posts.length, 4);
    assert.equal(await posted(text), 1);
  });

  test('a late answer that is sent for its own message settles it in place', async () => {
    const text = fresh('in-place');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await client.say('hello');
    assert.equal(await client.answer(question, true), 0);
    const before = ids(client.messages);
    await client.chat.sendMessage();
    assert.equal(client.posts.length, 3);
    assert.equal(client.posts[2].body.messageId, before[1]);
    assert.deepEqual(ids(client.messages), before);
    assert.equal(client.tools[0].state, 'output-available');
    assert.equal(await posted(text), 1);
    const stored = await shownWhen(client, 'its continuation', (stored) => stored.length === 5);
    assert.match(stored[4].parts.at(-1).text, /^Posted /);
  });
});

describe('an edited message', () => {
  test('it withdraws the question that it replaces', async () => {
    const [old, fresher] = [fresh('old'), fresh('new')];
    const client = new Client(admin);
    const question = await client.ask(`post "${old}" to #general`);
    const [message, answer] = ids(client.messages);
    await client.chat.sendMessage({ text: `post "${fresher}" to #general`, messageId: message });
    assert.equal(client.posts.length, 2);
    assert.equal(client.messages.length, 2);
    assert.notEqual(client.last.id, answer);
    assert.equal((await admin.approval(question)).state, 'voided');
    const [again] = client.questions;
    assert.equal(await client.answer(again, true), 1);
    assert.deepEqual([await posted(old), await posted(fresher)], [0, 1]);
    assert.deepEqual(shape(await client.stored()), shape(client.messages));
  });

  test('it never hides what became of an earlier request', async () => {
    const text = fresh('earlier');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await client.say('hello');
    await admin.decide(question, 'approve');
    const told = (stored) => stored.some((message) => message.parts.some((part) => part.text?.startsWith(`Posted “${text}”`)));
    await shownWhen(client, 'the continuation', told);
    await client.chat.sendMessage({ text: 'hello, in other words', messageId: ids(client.messages)[2] });
    const stored = await client.stored();
    assert.ok(told(stored), JSON.stringify(stored));
    assert.ok(!JSON.stringify(stored).includes('"text":"hello"'), 'the replaced message is not shown');
    const third = await reloaded(client);
    await third.chat.regenerate();
    assert.ok(told(await third.stored()), 'nor does another answer hide it');
    assert.equal(await posted(text), 1);
  });

  test('it finds its message in a long conversation', async () => {
    const client = new Client(teacher, { mostPosts: 40 });
    await client.say('what should I do first');
    for (let n = 0; n < 31; n += 1) await client.say(`hello ${n}`);
    const [first, second] = [client.messages[0].id, client.messages[2].id];
    await client.chat.sendMessage({ text: 'hello anew', messageId: second });
    assert.equal(client.messages.length, 4);
    const page = await reloaded(client);
    assert.deepEqual(shape(page.messages), shape(client.messages));
    assert.deepEqual(ids(page.messages), ids(client.messages));
    await client.chat.regenerate({ messageId: client.messages[1].id });
    assert.deepEqual(ids(await client.stored()), ids(client.messages));
    assert.equal(client.messages[0].id, first);
  });
});

describe('another answer', () => {
  test('it asks again and repeats no write that was done', async () => {
    const text = fresh('again');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    assert.equal(await client.answer(question, true), 1);
    const old = client.last.id;
    await client.chat.regenerate();
    assert.notEqual(client.last.id, old);
    assert.equal(client.posts.length, 3);
    const [again] = client.questions;
    assert.ok(again && again !== question, JSON.stringify(client.messages));
    assert.equal(await posted(text), 1, 'nothing more without another yes');
    assert.equal(await client.answer(again, false), 1);
    assert.equal(await posted(text), 1);
    assert.deepEqual(shape(await client.stored()), shape(client.messages));
  });

  test('it withdraws the question of the answer that it replaces', async () => {
    const text = fresh('withdrawn');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await client.chat.regenerate({ messageId: client.last.id });
    assert.equal((await admin.approval(question)).state, 'voided');
    const [again] = client.questions;
    assert.equal(await client.answer(again, true), 1);
    assert.equal(await posted(text), 1);
  });
});

describe('reconnecting', () => {
  test('a page that opens in the middle gets the whole message once, under the same id', async () => {
    const client = new Client(admin);
    await switched({ 'llm.delay_ms': 150 }, async () => {
      const done = client.say('read #general');
      const page = await eventually('a started answer', 20, async () => {
        const page = await admin.send('GET', `/v1/conversations/${client.id}/messages`);
        return page.status === 200 && page.body.running && reloaded(client);
      });
      const resumed = page.chat.resumeStream();
      await Promise.all([done, resumed]);
      assert.deepEqual(ids(page.messages), ids(client.messages));
      assert.deepEqual(shape(page.messages), shape(client.messages));
      assert.equal(page.chat.status, 'ready');
      assert.deepEqual([client.posts.length, page.posts.length, page.replays.length], [1, 0, 1]);
    });
  });

  test('a client that stopped reading gets the whole message again, with no part twice', async () => {
    const client = new Client(admin);
    await switched({ 'llm.delay_ms': 150 }, async () => {
      const done = client.say('read #general');
      await eventually('the first words', 20, () => client.last?.role === 'assistant' && client.last.parts.length > 1);
      const { id } = client.last;
      await client.chat.stop();
      await done;
      await client.chat.resumeStream();
      assert.equal(client.messages.length, 2);
      assert.equal(client.last.id, id);
    });
    assert.deepEqual(shape(client.messages), shape(await client.stored()));
  });

  test('when nothing runs there is nothing to read, and it is no error', async () => {
    const client = new Client(teacher);
    await client.say('hello');
    await client.chat.resumeStream();
    const stranger = new Client(teacher, { id: fresh('unknown') });
    await stranger.chat.resumeStream();
    const foreign = new Client(admin, { id: client.id });
    await foreign.chat.resumeStream();
    for (const one of [client, stranger, foreign]) {
      assert.equal(one.replays[0].status, 204);
      assert.deepEqual([one.chat.status, one.errors], ['ready', []]);
    }
    assert.deepEqual([client.messages.length, stranger.messages.length, foreign.messages.length], [2, 0, 0]);
  });

  test('a waiting question is nothing that runs', async () => {
    const client = new Client(admin);
    await client.ask(`post "${fresh('waits')}" to #general`);
    const before = shape(client.messages);
    await client.chat.resumeStream();
    assert.equal(client.replays[0].status, 204);
    assert.deepEqual(shape(client.messages), before);
  });
});

describe('failures', () => {
  test('a model that fails ends the answer with a sentence, and asking again works', async () => {
    const client = new Client(teacher);
    await switched({ 'llm.status': 400 }, () => client.say('hello'));
    assert.equal(client.chat.status, 'error');
    assert.match(client.chat.error.message, /^[A-Z].*\.$/);
    assert.doesNotMatch(client.chat.error.message, /[{}<>]/);
    assert.equal(client.posts.length, 1);
    const stored = await client.stored();
    assert.equal(stored[1].parts.at(-1).text, client.chat.error.message);
    client.chat.clearError();
    await client.chat.regenerate();
    assert.equal(client.chat.status, 'ready');
    assert.deepEqual(shape(client.messages), ['user: text(user)', 'assistant: step-start text(done)']);
    assert.deepEqual(shape(await client.stored()), shape(client.messages));
  });

  test('a model that breaks off leaves what it said and an error', async () => {
    const client = new Client(teacher);
    await switched({ 'llm.cut': true }, () => client.say('hello'));
    assert.equal(client.chat.status, 'error');
    assert.equal(client.posts.length, 1);
    await client.rest();
    assert.equal(client.posts.length, 1);
  });

  test('a model that fails after a yes is no reason to send the yes again', async () => {
    const text = fresh('yes-then-failure');
    const client = new Client(admin);
    const question = await client.ask(`post "${text}" to #general`);
    await switched({ 'llm.status': 400 }, async () => {
      assert.equal(await client.answer(question, true), 1);
    });
    assert.equal(client.chat.status, 'error');
    assert.equal(client.tools[0].state, 'output-available');
    assert.equal(await posted(text), 1);
    await client.chat.sendMessage();
    assert.equal(await posted(text), 1);
  });

  test('a message that is too large is refused with a sentence', async () => {
    const client = new Client(teacher);
    await client.say('a'.repeat(33 * 1024));
    assert.equal(client.chat.status, 'error');
    assert.equal(client.posts[0].status, 413);
    assert.match(JSON.parse(client.chat.error.message).detail, /at most/);
    assert.equal(client.posts.length, 1);
  });

  test('a sign-in that has ended is refused before anything is stored', async () => {
    const client = new Client(new Person('nothing'));
    await client.say('hello');
    assert.equal(client.posts[0].status, 401);
    assert.equal(client.chat.status, 'error');
  });
});
