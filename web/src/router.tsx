import { createRootRoute, createRoute, createRouter, Link, Navigate, useLocation, useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";
import { ApprovalsPage } from "./approvals/ApprovalsPage";
import { AuditPage } from "./audit/AuditPage";
import { TimelinePage } from "./audit/TimelinePage";
import { useSession } from "./auth/session";
import { CallbackPage, SignInPage } from "./auth/SignIn";
import { ChatPage } from "./chat/ChatPage";
import { Shell } from "./ui/Shell";

function Root() {
  const { pathname, href } = useLocation();
  const session = useSession();
  const navigate = useNavigate();
  const done = useCallback((path: string) => void navigate({ href: path, replace: true }), [navigate]);
  if (pathname === "/callback") return <CallbackPage onDone={done} />;
  if (session === "signed-out") return <SignInPage returnTo={href === "/" ? "/chat" : href} />;
  return <Shell />;
}

function NotFound() {
  return (
    <div className="page">
      <h1>There is no such page</h1>
      <p>
        <Link to="/chat/{-$id}" params={{ id: undefined }}>
          Go to the chat
        </Link>
      </p>
    </div>
  );
}

const root = createRootRoute({ component: Root, notFoundComponent: NotFound });

const routes = root.addChildren([
  createRoute({ getParentRoute: () => root, path: "/", component: () => <Navigate to="/chat/{-$id}" params={{ id: undefined }} replace /> }),
  createRoute({ getParentRoute: () => root, path: "/chat/{-$id}", component: ChatPage }),
  createRoute({ getParentRoute: () => root, path: "/approvals", component: ApprovalsPage }),
  createRoute({ getParentRoute: () => root, path: "/audit", component: AuditPage }),
  createRoute({ getParentRoute: () => root, path: "/audit/$approvalId", component: TimelinePage }),
  createRoute({ getParentRoute: () => root, path: "/callback", component: () => null }),
]);

export const router = createRouter({ routeTree: routes });

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
