import { useEffect, useRef, useState } from "react";
import { useTitle } from "../ui/hooks";
import { Notice } from "../ui/parts";
import { completeSignIn, SignInError, startSignIn } from "./session";

export function SignInButton({ returnTo, label }: { returnTo: string; label: string }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const start = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await startSignIn(returnTo);
    } catch (error) {
      setBusy(false);
      setProblem(error instanceof SignInError ? error.message : "The sign-in could not be started. Try again.");
    }
  };
  return (
    <>
      {problem && <Notice tone="bad" live>{problem}</Notice>}
      <button type="button" className="button button-primary button-wide" disabled={busy} onClick={() => void start()}>
        {busy ? "Opening the sign-in…" : label}
      </button>
    </>
  );
}

export function SignInPage({ problem, returnTo }: { problem?: string; returnTo: string }) {
  useTitle("Sign in");
  return (
    <main className="sign-in">
      <div className="sign-in-box">
        <img src="/icon.svg" alt="" width="48" height="48" />
        <h1>Toshi</h1>
        <p>The assistant of your school. It prepares the work, and asks you before it acts.</p>
        {problem && <Notice tone="bad" live>{problem}</Notice>}
        <SignInButton returnTo={returnTo} label="Sign in" />
      </div>
    </main>
  );
}

/** Where the sign-in service sends the person back to. */
export function CallbackPage({ onDone }: { onDone: (path: string) => void }) {
  const [problem, setProblem] = useState<string | null>(null);
  const started = useRef(false);
  useEffect(() => {
    // An answer can be used once, even if the page draws this twice.
    if (started.current) return;
    started.current = true;
    const { search } = location;
    // The code leaves the address bar, and so the history, before it is used.
    history.replaceState(null, "", "/callback");
    completeSignIn(search).then(onDone, (error: unknown) => {
      setProblem(error instanceof SignInError ? error.message : "The sign-in did not work. Start again.");
    });
  }, [onDone]);
  if (problem) return <SignInPage problem={problem} returnTo="/chat" />;
  return (
    <main className="sign-in">
      <p className="loading" role="status">
        <span className="spinner" aria-hidden="true" />
        Signing you in…
      </p>
    </main>
  );
}
