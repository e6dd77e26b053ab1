import { useEffect, useState, useSyncExternalStore } from "react";
import { serverNow } from "./time";

const tickers = new Set<() => void>();
let interval: ReturnType<typeof setInterval> | undefined;
let current = serverNow();

function subscribe(listener: () => void): () => void {
  tickers.add(listener);
  current = serverNow();
  interval ??= setInterval(() => {
    current = serverNow();
    for (const ticker of tickers) ticker();
  }, 1000);
  return () => {
    tickers.delete(listener);
    if (tickers.size === 0) {
      clearInterval(interval);
      interval = undefined;
    }
  };
}

/** The server's time, every second, from one timer for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => current);
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Toshi` : "Toshi";
  }, [title]);
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setMatches(list.matches);
    list.addEventListener("change", update);
    return () => list.removeEventListener("change", update);
  }, [query]);
  return matches;
}
