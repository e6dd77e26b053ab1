import { useMutation } from "@tanstack/react-query";
import { api } from "../api/client";
import { explain } from "../api/problem";
import { announce } from "../ui/announce";
import { Notice } from "../ui/parts";
import { verdict } from "./words";

/** Checks the chain of records and says in words what came out. */
export function Verify({ approval }: { approval?: string }) {
  const check = useMutation({
    mutationFn: () => api.verify(approval),
    onSuccess: (result) => announce(verdict(result).text),
    onError: (error) => announce(explain(error)),
  });
  const answer = check.data ? verdict(check.data) : null;
  return (
    <div className="verify">
      <button type="button" className="button" disabled={check.isPending} onClick={() => check.mutate()}>
        {check.isPending ? "Checking…" : "Verify the records"}
      </button>
      {check.isError && <Notice tone="bad">{explain(check.error)}</Notice>}
      {answer && !check.isPending && <Notice tone={answer.ok ? "good" : "bad"}>{answer.text}</Notice>}
    </div>
  );
}
