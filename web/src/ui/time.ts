/** Words for points in time and for what is left until one. All pure but `serverNow`. */

let offset = 0;

/** Learns how far this computer's clock is from the server's, from a `Date` header. */
export function learnServerTime(header: string | null, now = Date.now()): void {
  const at = header ? Date.parse(header) : NaN;
  if (Number.isNaN(at)) return;
  const seen = at - now;
  // The header has whole seconds: small differences are noise.
  offset = Math.abs(seen) > 5000 ? seen : 0;
}

export function serverNow(): number {
  return Date.now() + offset;
}

export function remaining(until: string | null, now: number): { over: boolean; text: string } {
  const end = Date.parse(until ?? "");
  // A missing or malformed time counts as expired, as it does on the server.
  if (Number.isNaN(end) || end <= now) return { over: true, text: "time is up" };
  const seconds = Math.ceil((end - now) / 1000);
  return { over: false, text: spell(seconds) };
}

function spell(seconds: number): string {
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor((seconds % 86400) / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const rest = seconds % 60;
  if (days > 0) return hours > 0 ? `${days} d ${hours} h` : `${days} d`;
  if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  if (minutes > 0) return minutes < 10 ? `${minutes} min ${rest} s` : `${minutes} min`;
  return `${rest} s`;
}

export function clock(iso: string | null | undefined, now = Date.now()): string {
  const at = new Date(iso ?? NaN);
  if (Number.isNaN(at.getTime())) return "an unknown time";
  const time = at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  if (at.toDateString() === new Date(now).toDateString()) return time;
  const day = at.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  const year = at.getFullYear() === new Date(now).getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${day}${year}, ${time}`;
}

export function exact(iso: string): string {
  const at = new Date(iso);
  return Number.isNaN(at.getTime())
    ? iso
    : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}

export function toTheSecond(iso: string): string {
  const at = new Date(iso);
  return Number.isNaN(at.getTime())
    ? iso
    : at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

export function dayHeading(iso: string, now = Date.now()): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "Unknown day";
  if (at.toDateString() === new Date(now).toDateString()) return "Today";
  if (at.toDateString() === new Date(now - 86_400_000).toDateString()) return "Yesterday";
  return at.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
}
