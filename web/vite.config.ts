import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const backend = process.env.TOSHI_BACKEND ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  server: {
    host: "127.0.0.1",
    proxy: { "/v1": backend, "/config.json": backend, "/_sandbox": backend },
  },
  build: {
    // The page is served under `default-src 'self'`: no data: URLs, no injected scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
