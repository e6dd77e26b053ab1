// Messages and streams without what differs from server to server: ids, names, the model's words.
import { readFileSync } from 'node:fs';

const RECORDED = new URL('../../../events/ai-sdk/', import.meta.url);

export const recorded = (name) => JSON.parse(readFileSync(new URL(`${name}.json`, RECORDED), 'utf8'));

/** The chunks of a recorded stream. */
export function recordedStream(name) {
  const text = readFileSync(new URL(`${name}.sse`, RECORDED), 'utf8');
  const events = text.split(/\r?\n\r?\n/).filter((event) => event.startsWith('data: {'));
  return events.map((event) => JSON.parse(event.slice('data: '.length)));
}

const isTool = (part) => part.type === 'dynamic-tool' || part.type.startsWith('tool-');

/** A line for each message: who, and what its parts are. */
export function shape(messages) {
  return messages.map((message) => `${message.role}: ${message.parts.map(part).join(' ')}`);
}

function part(part) {
  if (!isTool(part)) return part.type === 'text' ? `text(${part.state ?? 'user'})` : part.type;
  const { approval } = part;
  if (!approval) return part.state;
  const answer = approval.approved === undefined ? 'asked' : approval.approved ? 'yes' : 'no';
  return `${part.state}(${answer}${approval.reason ? `: ${approval.reason}` : ''})`;
}

/** The same without the words that a model says before its calls, which are its own choice. */
export function steps(messages) {
  return shape(messages).map((line) =>
    line.replace(/step-start text\(done\) (?=input|approval|output)/g, 'step-start '),
  );
}

/** The kinds of a stream's chunks: parts of texts and of inputs in one word, calls by number. */
export function kinds(chunks) {
  const calls = [...new Set(chunks.flatMap((chunk) => chunk.toolCallId ?? []))];
  const asked = new Map(chunks.flatMap((c) => (c.approvalId && c.toolCallId ? [[c.approvalId, c.toolCallId]] : [])));
  const told = [];
  for (const chunk of chunks) {
    if (/^text-|^tool-input-(start|delta)$/.test(chunk.type)) {
      if (chunk.type === 'text-start') told.push('text');
      continue;
    }
    const call = chunk.toolCallId ?? asked.get(chunk.approvalId);
    const number = call ? ` ${calls.indexOf(call)}` : '';
    told.push(chunk.type + number + (chunk.finishReason ? ` ${chunk.finishReason}` : ''));
  }
  // Words before a call are the model's choice.
  return told.filter((kind, n) => !(kind === 'text' && told[n + 1]?.startsWith('tool-')));
}
