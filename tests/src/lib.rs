//! End-to-end tests against the deployed template; see `it/`.
