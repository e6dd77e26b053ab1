import { useSyncExternalStore } from "react";
import { config } from "../config";
import { challengeOf, claimsOf, randomToken } from "./pkce";

const TOKENS = "toshi.auth.tokens";
const REQUEST = "toshi.auth.request";
const REFRESH_BEFORE_MS = 60_000;

interface Tokens {
  access_token: string;
  refresh_token: string | null;
  id_token: string | null;
  /** Milliseconds on this computer's clock. */
  expires_at: number;
}

interface PendingSignIn {
  state: string;
  nonce: string;
  verifier: string;
  return_to: string;
}

interface Discovery {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  end_session_endpoint?: string;
}

interface TokenAnswer {
  access_token?: string;
  refresh_token?: string;
  id_token?: string;
  expires_in?: number;
  token_type?: string;
}

/** `ended`: somebody was signed in and is no longer; what they typed is still on the page. */
export type SessionStatus = "signed-out" | "signed-in" | "ended";

/** A failed sign-in, in words for the person. */
export class SignInError extends Error {}

let tokens: Tokens | null = restore();
let status: SessionStatus = tokens ? "signed-in" : "signed-out";
let refreshing: Promise<boolean> | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
let discovery: Promise<Discovery> | null = null;
const listeners = new Set<() => void>();

function restore(): Tokens | null {
  try {
    const text = sessionStorage.getItem(TOKENS);
    return text ? (JSON.parse(text) as Tokens) : null;
  } catch {
    return null;
  }
}

function change(next: SessionStatus, held: Tokens | null): void {
  tokens = held;
  status = next;
  if (held) sessionStorage.setItem(TOKENS, JSON.stringify(held));
  else sessionStorage.removeItem(TOKENS);
  schedule();
  for (const listener of listeners) listener();
}

export function useSession(): SessionStatus {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => status,
  );
}

export function isSignedIn(): boolean {
  return status === "signed-in";
}

function discover(): Promise<Discovery> {
  discovery ??= fetch(`${config().issuer}/.well-known/openid-configuration`)
    .then(async (response) => {
      if (!response.ok) throw new Error(`discovery: ${response.status}`);
      const found = (await response.json()) as Discovery;
      if (found.issuer !== config().issuer) throw new Error("discovery: another issuer answered");
      return found;
    })
    .catch((error: unknown) => {
      discovery = null;
      throw error;
    });
  return discovery;
}

function redirectUri(): string {
  return `${location.origin}/callback`;
}

/** Only paths of this page: never somewhere a link could send a person. */
export function safeReturn(path: string): string {
  return path.startsWith("/") && !path.startsWith("//") && !path.startsWith("/callback") && !path.includes("\\")
    ? path
    : "/chat";
}

export async function startSignIn(returnTo: string): Promise<void> {
  let found: Discovery;
  try {
    found = await discover();
  } catch {
    throw new SignInError("The sign-in service can't be reached. Try again in a moment.");
  }
  const pending: PendingSignIn = {
    state: randomToken(),
    nonce: randomToken(),
    verifier: randomToken(48),
    return_to: safeReturn(returnTo),
  };
  sessionStorage.setItem(REQUEST, JSON.stringify(pending));
  const url = new URL(found.authorization_endpoint);
  url.search = new URLSearchParams({
    response_type: "code",
    client_id: config().client_id,
    redirect_uri: redirectUri(),
    scope: config().scope,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await challengeOf(pending.verifier),
    code_challenge_method: "S256",
  }).toString();
  location.assign(url);
}

/** Takes the answer of the sign-in service; gives the path to go back to. */
export async function completeSignIn(search: string): Promise<string> {
  const answer = new URLSearchParams(search);
  const stored = sessionStorage.getItem(REQUEST);
  sessionStorage.removeItem(REQUEST);
  if (!stored) throw new SignInError("This sign-in was started somewhere else or was already used. Start again here.");
  const pending = JSON.parse(stored) as PendingSignIn;
  if (answer.get("state") !== pending.state) {
    throw new SignInError("This answer does not belong to the sign-in you started. For your safety it was not used.");
  }
  const issuer = answer.get("iss");
  if (issuer !== null && issuer !== config().issuer) {
    throw new SignInError("The answer came from another sign-in service. For your safety it was not used.");
  }
  const failure = answer.get("error");
  if (failure) {
    throw new SignInError(
      failure === "access_denied"
        ? "You cancelled the sign-in."
        : "The sign-in service refused. Try again, or ask your school's administrator.",
    );
  }
  const code = answer.get("code");
  if (!code) throw new SignInError("The sign-in service sent no answer that can be used. Start again.");

  let fresh: Tokens;
  try {
    fresh = await tokenRequest({
      grant_type: "authorization_code",
      code,
      redirect_uri: redirectUri(),
      code_verifier: pending.verifier,
    });
  } catch (error) {
    throw new SignInError(
      error instanceof TokenRefused
        ? "The sign-in took too long or was already used. Start again."
        : "The sign-in service can't be reached. Try again in a moment.",
    );
  }
  checkIdToken(fresh.id_token, pending.nonce);
  change("signed-in", fresh);
  return safeReturn(pending.return_to);
}

function checkIdToken(token: string | null, nonce: string): void {
  const wrong = new SignInError("The sign-in service's answer does not match your request. For your safety it was not used.");
  if (!token) {
    if (config().scope.split(" ").includes("openid")) throw wrong;
    return;
  }
  let claims: Record<string, unknown>;
  try {
    claims = claimsOf(token);
  } catch {
    throw wrong;
  }
  const audience = Array.isArray(claims.aud) ? claims.aud : [claims.aud];
  if (claims.nonce !== nonce || claims.iss !== config().issuer || !audience.includes(config().client_id)) throw wrong;
}

class TokenRefused extends Error {}

async function tokenRequest(form: Record<string, string>): Promise<Tokens> {
  const { token_endpoint } = await discover();
  const response = await fetch(token_endpoint, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ ...form, client_id: config().client_id }),
  });
  if (response.status >= 400 && response.status < 500) throw new TokenRefused(`token endpoint: ${response.status}`);
  if (!response.ok) throw new Error(`token endpoint: ${response.status}`);
  const answer = (await response.json()) as TokenAnswer;
  if (!answer.access_token) throw new TokenRefused("no access token");
  return {
    access_token: answer.access_token,
    refresh_token: answer.refresh_token ?? null,
    id_token: answer.id_token ?? null,
    expires_at: Date.now() + (answer.expires_in ?? 300) * 1000,
  };
}

/** Renews the access token once for all callers; false when a new sign-in is needed. */
export function refresh(): Promise<boolean> {
  refreshing ??= renew().finally(() => {
    refreshing = null;
  });
  return refreshing;
}

async function renew(): Promise<boolean> {
  const held = tokens;
  if (!held?.refresh_token) {
    endSession();
    return false;
  }
  try {
    const fresh = await tokenRequest({ grant_type: "refresh_token", refresh_token: held.refresh_token });
    change("signed-in", {
      ...fresh,
      refresh_token: fresh.refresh_token ?? held.refresh_token,
      id_token: fresh.id_token ?? held.id_token,
    });
    return true;
  } catch (error) {
    if (error instanceof TokenRefused) {
      endSession();
      return false;
    }
    throw error;
  }
}

function schedule(): void {
  clearTimeout(timer);
  if (!tokens?.refresh_token) return;
  const left = tokens.expires_at - Date.now();
  const wait = Math.max(left - Math.min(REFRESH_BEFORE_MS, left / 2), 1000);
  timer = setTimeout(
    () => {
      // A failed attempt is harmless here: the next request refreshes again or asks for a sign-in.
      void refresh().catch(schedule);
    },
    Math.min(wait, 2_000_000_000),
  );
}

/** A token for the next request, renewed first when it has run out. */
export async function accessToken(): Promise<string | null> {
  if (tokens && tokens.expires_at <= Date.now() && tokens.refresh_token) await refresh();
  return tokens?.access_token ?? null;
}

export function endSession(): void {
  if (status !== "signed-out") change("ended", null);
}

export async function signOut(): Promise<void> {
  const hint = tokens?.id_token;
  change("signed-out", null);
  sessionStorage.clear();
  const end = await discover().then(
    (found) => found.end_session_endpoint,
    () => undefined,
  );
  if (!end) return;
  const url = new URL(end);
  url.searchParams.set("client_id", config().client_id);
  url.searchParams.set("post_logout_redirect_uri", `${location.origin}/`);
  if (hint) url.searchParams.set("id_token_hint", hint);
  location.assign(url);
}

schedule();
