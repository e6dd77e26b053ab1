import "./validation";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { makeQueryClient } from "./api/queries";
import { loadConfig } from "./config";
import { router } from "./router";
import "./styles.css";

const place = document.getElementById("root");
if (!place) throw new Error("index.html has no place for the page");
const root = createRoot(place);

async function start(): Promise<void> {
  try {
    await loadConfig();
  } catch {
    root.render(
      <main className="sign-in">
        <div className="sign-in-box">
          <h1>Toshi can't be reached</h1>
          <p>The page could not read its settings. Check your connection, then try again.</p>
          <button type="button" className="button button-primary button-wide" onClick={() => location.reload()}>
            Try again
          </button>
        </div>
      </main>,
    );
    return;
  }
  root.render(
    <StrictMode>
      <QueryClientProvider client={makeQueryClient()}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}

void start();
