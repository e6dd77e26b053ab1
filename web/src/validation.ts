import { config } from "zod/v4/core";

// The schema library under the AI SDK tries to compile code otherwise, which the content security
// policy forbids. It asks once, when the first schema is made: this module is imported first.
config({ jitless: true });
