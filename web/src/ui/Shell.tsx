import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { explain } from "../api/problem";
import { can, useMe, usePending, useUnknown } from "../api/queries";
import type { Me } from "../api/types";
import { humanise, outcomesToCheck } from "../approvals/states";
import { SignInButton } from "../auth/SignIn";
import { signOut, useSession } from "../auth/session";
import { forgetAllConversations } from "../chat/conversation";
import { Announcer } from "./announce";
import { useTitle } from "./hooks";
import { Modal } from "./Modal";
import { Failed, Loading } from "./parts";

export function Shell() {
  const me = useMe();
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const area = pathname.split("/")[1];
  const before = useRef(area);

  useEffect(() => {
    if (before.current !== area) main.current?.focus();
    before.current = area;
  }, [area]);

  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <Header me={me.data} />
      <main id="main" ref={main} tabIndex={-1} className="main">
        {me.data && isOperator(me.data) ? (
          <OperatorPage />
        ) : me.data ? (
          <Outlet />
        ) : me.isError ? (
          <div className="page">
            <Failed sentence={explain(me.error)} onRetry={() => void me.refetch()} />
          </div>
        ) : (
          <div className="page">
            <Loading what="your school" />
          </div>
        )}
      </main>
      <Announcer />
      <SessionEnded />
    </div>
  );
}

function Header({ me }: { me: Me | undefined }) {
  const queries = useQueryClient();
  const leave = () => {
    forgetAllConversations();
    void signOut();
    queries.clear();
  };
  return (
    <header className="header">
      <div className="header-row">
        <div className="brand">
          <img src="/icon.svg" alt="" width="28" height="28" />
          <span className="brand-text">
            <span className="brand-name">Toshi</span>
            {me && <span className="school">{me.tenant?.name ?? "All schools"}</span>}
          </span>
        </div>
        {me && !isOperator(me) && (
          <nav className="tabs" aria-label="Main">
            <Link to="/chat/{-$id}" params={{ id: undefined }} activeOptions={{ exact: false }}>
              Chat
            </Link>
            <Link to="/approvals">
              Approvals <PendingCount />
            </Link>
            {can(me, "audit.read") && <Link to="/audit">Audit</Link>}
          </nav>
        )}
        <div className="person">
          {me && (
            <span className="person-text">
              <span className="person-name">{me.name}</span>
              <span className="person-role">{humanise(me.role)}</span>
            </span>
          )}
          <button type="button" className="button button-small" onClick={leave}>
            Sign out
          </button>
        </div>
      </div>
    </header>
  );
}

/** Belongs to no school, so nothing here is theirs to see. */
function isOperator(me: Me): boolean {
  return me.role === "operator";
}

function OperatorPage() {
  useTitle("");
  return (
    <div className="page">
      <h1>Toshi</h1>
      <p className="page-lead">
        You are signed in as the platform's operator. This console has nothing for you yet; use the <code>toshi</code> command.
      </p>
    </div>
  );
}

function PendingCount() {
  const waiting = usePending().waiting?.length ?? 0;
  const toCheck = useUnknown().data?.items.filter((row) => row.can_resolve).length ?? 0;
  return (
    <>
      {waiting > 0 && (
        <span className="count" title={`${waiting} waiting for you`}>
          {waiting}
          <span className="visually-hidden"> waiting for you</span>
        </span>
      )}
      {waiting > 0 && toCheck > 0 && " "}
      {toCheck > 0 && (
        <span className="count count-ask" title={outcomesToCheck(toCheck)}>
          <span aria-hidden="true">{toCheck}?</span>
          <span className="visually-hidden"> {outcomesToCheck(toCheck)}</span>
        </span>
      )}
    </>
  );
}

/** The page stays as it is, with everything typed, until the person signs in again. */
function SessionEnded() {
  const status = useSession();
  const { href } = useLocation();
  return (
    <Modal title="Your sign-in has ended" open={status === "ended"}>
      <p>Sign in again to go on. What you have typed is kept.</p>
      <SignInButton returnTo={href} label="Sign in again" />
    </Modal>
  );
}
