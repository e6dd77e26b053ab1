import type { AppConfig } from "./api/types";

let loaded: AppConfig | null = null;

export async function loadConfig(): Promise<AppConfig> {
  const response = await fetch("/config.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`config.json: ${response.status}`);
  loaded = (await response.json()) as AppConfig;
  return loaded;
}

export function config(): AppConfig {
  if (!loaded) throw new Error("the configuration is not loaded yet");
  return loaded;
}
