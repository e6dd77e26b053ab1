// Rows of a school as an administrator would have made them: nothing in the product writes them yet.
import { createHash } from 'node:crypto';
import { database, deployed } from './stack.mjs';

async function put(PK, SK, row) {
  const item = { PK, SK, ...row };
  await database('PutItem', {
    TableName: deployed().chat.environment.TOSHI_TABLE,
    Item: Object.fromEntries(Object.entries(item).map(([name, value]) => [name, attribute(value)])),
  });
}

function attribute(value) {
  if (typeof value === 'boolean') return { BOOL: value };
  if (Array.isArray(value)) return { L: value.map(attribute) };
  if (typeof value === 'object') {
    return { M: Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, attribute(inner)])) };
  }
  return { S: value };
}

/** A school that accepts these tokens: `[{ issuer, audience }]`. */
export const putSchool = (tenant, issuers) =>
  put('PLATFORM', `TENANT#${tenant}`, { tenant, name: 'Brookside', active: true, issuers });

/** A person of the school, whom the issuer calls `subject`. */
export async function putPerson(tenant, issuer, subject, role) {
  // A subject may hold characters that a user id may not.
  const user = `${tenant}-${subject.replaceAll('@', '-at-')}`;
  await put(`T#${tenant}`, `USER#${user}`, { user, name: `Brookside ${role}`, role, status: 'active' });
  const identity = createHash('sha256').update(`${issuer}\0${subject}`).digest('hex');
  await put(`SUB#${identity}`, `T#${tenant}`, { tenant, user });
}
