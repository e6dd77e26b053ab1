import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../api/client";
import { explain } from "../api/problem";
import type { ConversationSummary } from "../api/types";
import { announce } from "../ui/announce";
import { Modal } from "../ui/Modal";
import { Failed, Loading, Notice, Time } from "../ui/parts";
import { forgetConversation } from "./conversation";

export function ConversationList(props: { currentId: string | undefined; onPick: () => void; onNew: () => void }) {
  const { currentId, onPick, onNew } = props;
  const [doomed, setDoomed] = useState<ConversationSummary | null>(null);
  const query = useInfiniteQuery({
    queryKey: ["conversations"],
    queryFn: ({ pageParam, signal }) => api.conversations(pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
  const items = query.data?.pages.flatMap((page) => page.items) ?? [];

  return (
    <nav className="conversations" aria-label="Conversations">
      <button type="button" className="button button-wide" onClick={onNew}>
        New conversation
      </button>
      {query.isPending && <Loading what="your conversations" />}
      {query.isError && !query.data && <Failed sentence={explain(query.error)} onRetry={() => void query.refetch()} />}
      {query.isSuccess && items.length === 0 && <p className="conversations-none">Your conversations will be listed here.</p>}
      <ul>
        {items.map((item) => (
          <li key={item.id} className={item.id === currentId ? "current" : undefined}>
            <Link
              to="/chat/{-$id}"
              params={{ id: item.id }}
              onClick={onPick}
              aria-current={item.id === currentId ? "page" : undefined}
            >
              <span className="conversation-title">{item.title || "Conversation"}</span>
              <span className="conversation-time">
                <Time at={item.last_activity} />
              </span>
            </Link>
            <button
              type="button"
              className="button-icon"
              aria-label={`Delete “${item.title || "Conversation"}”`}
              onClick={() => setDoomed(item)}
            >
              <svg viewBox="0 0 20 20" width="16" height="16" aria-hidden="true">
                <path d="M4 6h12M8 6V4h4v2m-6 0 .6 10h6.8L14 6" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />
              </svg>
            </button>
          </li>
        ))}
      </ul>
      {query.hasNextPage && (
        <button type="button" className="button-link" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Show older conversations
        </button>
      )}
      <DeleteDialog item={doomed} currentId={currentId} onClose={() => setDoomed(null)} />
    </nav>
  );
}

function DeleteDialog(props: { item: ConversationSummary | null; currentId: string | undefined; onClose: () => void }) {
  const { item, currentId, onClose } = props;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);

  const close = () => {
    setProblem(null);
    onClose();
  };

  const remove = async () => {
    if (!item) return;
    setBusy(true);
    setProblem(null);
    try {
      await api.deleteConversation(item.id);
      forgetConversation(item.id);
      await queries.invalidateQueries({ queryKey: ["conversations"] });
      void queries.invalidateQueries({ queryKey: ["approvals"] });
      announce("The conversation was deleted.");
      close();
      if (item.id === currentId) await navigate({ to: "/chat/{-$id}", params: { id: undefined } });
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Modal title="Delete this conversation?" open={item !== null} onClose={close}>
      <p>
        “{item?.title || "Conversation"}” disappears from your list. Requests in it that still wait for an answer can no longer be
        approved. The audit keeps what was done.
      </p>
      {problem && <Notice tone="bad" live>{problem}</Notice>}
      <div className="buttons">
        <button type="button" className="button button-danger" disabled={busy} onClick={() => void remove()}>
          Delete
        </button>
        <button type="button" className="button" disabled={busy} onClick={close}>
          Keep it
        </button>
      </div>
    </Modal>
  );
}
