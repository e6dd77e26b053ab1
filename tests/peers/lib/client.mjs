// The AI SDK's own chat client, with a fetch that keeps what went over the wire.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { Chat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
} from 'ai';
import { BASE, eventually, fresh } from './stack.mjs';

/** More posts than any scenario here needs: a client that sends again and again is stopped. */
const MOST_POSTS = 8;

export class Client {
  /** `automatic`: goes on by itself when all questions of the last step are answered. */
  constructor(person, { automatic = true, id = fresh('chat'), messages = [], mostPosts = MOST_POSTS } = {}) {
    this.mostPosts = mostPosts;
    this.person = person;
    this.id = id;
    this.posts = [];
    this.replays = [];
    this.errors = [];
    const transport = new DefaultChatTransport({
      api: `${BASE}/v1/chat`,
      headers: person.headers,
      fetch: (url, init) => this.#fetch(url, init),
    });
    this.chat = new Chat({
      id,
      messages,
      transport,
      onError: (error) => this.errors.push(error),
      onFinish: ({ finishReason }) => (this.finished = finishReason),
      ...(automatic && { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses }),
    });
  }

  async #fetch(url, init) {
    const sent = { body: init.body && JSON.parse(init.body) };
    const list = init.method === 'POST' ? this.posts : this.replays;
    list.push(sent);
    assert.ok(this.posts.length <= this.mostPosts, 'the client sends again and again');
    let response = await fetch(url, init);
    while (response.status === 429) {
      // A busy minute is no part of what is tested.
      await pause(Number(response.headers.get('retry-after')) * 1000);
      response = await fetch(url, init);
    }
    sent.status = response.status;
    sent.text = response.clone().text().catch(() => '');
    return response;
  }

  get messages() {
    return this.chat.messages;
  }

  get last() {
    return this.chat.messages.at(-1);
  }

  /** The tool parts of all messages. */
  get tools() {
    return this.messages.flatMap((message) => message.parts).filter(isToolUIPart);
  }

  /** The ids of questions that wait for an answer, in their order. */
  get questions() {
    return this.tools.filter((part) => part.state === 'approval-requested').map((part) => part.approval.id);
  }

  say(text) {
    return this.chat.sendMessage({ text });
  }

  /** Says it and waits for the one question that it leads to. */
  async ask(text) {
    await this.say(text);
    assert.equal(this.questions.length, 1, JSON.stringify(this.messages));
    return this.questions[0];
  }

  async answer(id, approved, reason) {
    const before = this.posts.length;
    await this.chat.addToolApprovalResponse({ id, approved, reason });
    await this.rest();
    return this.posts.length - before;
  }

  /** Until nothing is on its way, and nothing starts by itself any more. */
  async rest() {
    const busy = () => ['submitted', 'streaming'].includes(this.chat.status);
    let quiet = 0;
    await eventually('the client rests', 90, () => {
      quiet = busy() ? 0 : quiet + 1;
      return quiet > 4;
    });
  }

  /** What the server streamed in answer to the nth post, as chunks. */
  async streamed(n, list = this.posts) {
    const text = await list.at(n).text;
    const events = text.split('\n\n').filter((event) => event.startsWith('data: '));
    const data = events.map((event) => event.slice('data: '.length));
    assert.equal(data.pop(), '[DONE]', text);
    return data.map((json) => JSON.parse(json));
  }

  /** The conversation as the page loads it. */
  async stored() {
    const page = await this.person.get(`/v1/conversations/${this.id}/messages`);
    return page.items;
  }
}
