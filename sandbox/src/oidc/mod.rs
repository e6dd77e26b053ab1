//! The OIDC issuer: authorization-code flow with PKCE for the web console, and tokens for tests.

mod accounts;
mod grants;
mod key;
mod sign_in;
mod tokens;

use std::{path::Path, sync::Arc};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use serde_json::{Value, json};

pub(crate) use grants::Family;
pub(crate) use tokens::mint;

use crate::{App, saved::Saved};
use grants::Grants;
use key::Key;

pub(crate) const AUDIENCE: &str = "https://api.toshi.test";
pub(crate) const CLIENT: &str = "toshi-web";
pub(crate) const SCOPE: &str = "openid toshi";

/// Where the issuer lives below the sandbox's address.
pub(crate) const PATH: &str = "/_sandbox/oidc";

#[derive(Debug)]
pub(crate) struct Issuer {
    key: Key,
    grants: Grants,
    /// `http://127.0.0.1:<port>/_sandbox/oidc`
    url: String,
    port: u16,
}

impl Issuer {
    pub(crate) fn open(folder: &Path, saved: Arc<Saved>, port: u16) -> anyhow::Result<Self> {
        let url = format!("http://127.0.0.1:{port}{PATH}");
        Ok(Self {
            key: Key::open(folder)?,
            grants: Grants::new(saved),
            url,
            port,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The path of an address on this process's own page.
    fn own_path<'a>(&self, address: &'a str) -> Option<&'a str> {
        ["127.0.0.1", "localhost"].iter().find_map(|host| {
            let path = address.strip_prefix(&format!("http://{host}:{}", self.port))?;
            (path.is_empty() || path.starts_with('/')).then_some(path)
        })
    }
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/.well-known/openid-configuration", get(discovery))
        .route("/.well-known/oauth-authorization-server", get(discovery))
        .route("/jwks", get(keys))
        .route("/authorize", get(sign_in::show).post(sign_in::choose))
        .route("/token", post(tokens::exchange))
        .route("/logout", get(sign_in::out).post(sign_in::out_by_form))
        .layer(DefaultBodyLimit::max(64 * 1024))
        .layer(middleware::from_fn(share_with_own_pages))
}

/// The guard has let the origin pass, so it is one of the two names of this address.
async fn share_with_own_pages(request: axum::extract::Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = next.run(request).await;
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

async fn discovery(State(app): State<Arc<App>>) -> Json<Value> {
    let url = app.issuer.url();
    Json(json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/jwks"),
        "end_session_endpoint": format!("{url}/logout"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["openid", "toshi"],
        "claims_supported": ["sub", "name", "tenant"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn keys(State(app): State<Arc<App>>) -> Json<Value> {
    Json(app.issuer.key.set())
}
