import { QueryClient, useQuery } from "@tanstack/react-query";
import { isFinal, isOver } from "../approvals/states";
import { useNow } from "../ui/hooks";
import { api } from "./client";
import { Problem } from "./problem";
import type { Approval, Me } from "./types";

export const POLL_MS = 5000;

export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // What the server refuses it refuses again; only its own failures are worth another try.
        retry: (count, error) => !(error instanceof Problem && error.status < 500) && count < 2,
        retryDelay: (count) => Math.min(1000 * 2 ** count, 4000),
        staleTime: 2000,
      },
    },
  });
}

export function useMe() {
  return useQuery({ queryKey: ["me"], queryFn: ({ signal }) => api.me(signal), staleTime: 300_000 });
}

export function can(me: Me | undefined, capability: string): boolean {
  return me?.capabilities.includes(capability) ?? false;
}

/** One approval as it is stored, read again every five seconds while it can still change by itself. */
export function useApproval(id: string) {
  return useQuery<Approval>({
    queryKey: ["approval", id],
    queryFn: ({ signal }) => api.approval(id, signal),
    refetchInterval: (query) => (query.state.data && isFinal(query.state.data.state) ? false : POLL_MS),
  });
}

/** Requests that I can still answer. What ran out of time waits for nobody. */
export function usePending() {
  const me = useMe().data;
  const now = useNow();
  const query = useQuery({
    enabled: can(me, "approvals.decide"),
    queryKey: ["approvals", "pending"],
    queryFn: ({ signal }) => api.approvals({ state: "pending", mine: true, limit: 50 }, signal),
    refetchInterval: 15_000,
  });
  return { ...query, waiting: query.data?.items.filter((row) => row.state === "pending" && !isOver(row, now)) };
}

/** Outcomes that nobody knows yet: my own, and for those who may look after them the school's. */
export function useUnknown() {
  const me = useMe().data;
  const resolver = can(me, "approvals.resolve");
  return useQuery({
    enabled: can(me, "chat"),
    queryKey: ["approvals", "unknown", resolver],
    queryFn: ({ signal }) => api.approvals({ state: "unknown", mine: resolver ? undefined : true, limit: 50 }, signal),
    refetchInterval: 15_000,
  });
}
