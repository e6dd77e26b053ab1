// The peer tests, which bring no linter of their own.
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  { files: ["**/*.mjs"], languageOptions: { globals: globals.node } },
];
