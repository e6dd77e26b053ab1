//! Issuers' public keys: fetched by discovery, kept, and fetched again when a token names a new one.

use std::collections::HashMap;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use toshi_core::Millis;

use crate::{Code, Problem};

/// How long an issuer's keys are used without asking again.
const KEPT_MS: i64 = 60 * 60 * 1000;
/// An unknown key id makes us ask again at most this often, so that forged tokens cannot make us
/// flood an issuer.
const ASK_AGAIN_MS: i64 = 30 * 1000;
const ISSUERS_MAX: usize = 256;
const KEYS_MAX: usize = 100;
const BODY_MAX: usize = 256 * 1024;
const FETCH_WITHIN: Duration = Duration::from_secs(5);

/// A public key and the one algorithm that it is for.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<String, Key>,
    fetched_at: Option<Millis>,
    asked_at: Option<Millis>,
}

impl Known {
    fn is_fresh(&self, now: Millis) -> bool {
        self.fetched_at.is_some_and(|at| at.until(now) < KEPT_MS)
    }

    fn may_ask(&self, now: Millis) -> bool {
        self.asked_at.is_none_or(|at| at.until(now) >= ASK_AGAIN_MS)
    }
}

#[derive(Debug)]
pub(super) struct IssuerKeys {
    http: reqwest::Client,
    dev: bool,
    /// Held while fetching: those who wait for the same keys do not fetch them as well.
    issuers: Mutex<HashMap<String, Known>>,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0:?} is not an address that keys may come from")]
    Address(String),
    #[error("{address} failed: {error}")]
    Http {
        address: String,
        error: reqwest::Error,
    },
    #[error("{0} answered HTTP {1}")]
    Status(String, u16),
    #[error("{0} answered more than {BODY_MAX} bytes")]
    TooLarge(String),
    #[error("{0} answered something else than expected")]
    Unreadable(String),
    #[error("the issuer's own document names another issuer")]
    OtherIssuer,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    /// Read one by one: an issuer may publish kinds of keys that we do not know.
    keys: Vec<Value>,
}

impl IssuerKeys {
    pub(super) fn new(http: reqwest::Client, dev: bool) -> Self {
        Self {
            http,
            dev,
            issuers: Mutex::default(),
        }
    }

    /// The issuer's key `kid`. `issuer` must be one that a school accepts.
    pub(super) async fn find(&self, issuer: &str, kid: &str, now: Millis) -> Result<Key, Problem> {
        let mut issuers = self.issuers.lock().await;
        if issuers.len() >= ISSUERS_MAX && !issuers.contains_key(issuer) {
            issuers.retain(|_, known| known.is_fresh(now));
            if issuers.len() >= ISSUERS_MAX {
                issuers.clear();
            }
        }
        let known = issuers.entry(issuer.to_owned()).or_default();
        if known.is_fresh(now)
            && let Some(key) = known.keys.get(kid)
        {
            return Ok(key.clone());
        }
        if known.may_ask(now) {
            known.asked_at = Some(now);
            match self.fetch(issuer).await {
                Ok(keys) => {
                    known.keys = keys;
                    known.fetched_at = Some(now);
                }
                Err(error) => {
                    tracing::warn!(%error, issuer, "the issuer's keys could not be fetched");
                }
            }
        }
        // Keys past their hour still serve while their issuer is silent.
        match known.keys.get(kid) {
            Some(key) => Ok(key.clone()),
            None if known.is_fresh(now) => Err(Problem::new(Code::TokenInvalid)),
            None => Err(Problem::saying(
                Code::Unavailable,
                "The sign-in cannot be checked at the moment. Try again shortly.",
            )
            .retry_after(ASK_AGAIN_MS / 1000)),
        }
    }

    async fn fetch(&self, issuer: &str) -> Result<HashMap<String, Key>, FetchError> {
        let base = self.allowed(issuer)?;
        let address = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let discovery: Discovery = self.get(&address).await?;
        if discovery.issuer != issuer {
            return Err(FetchError::OtherIssuer);
        }
        let jwks = self.allowed(&discovery.jwks_uri)?;
        if jwks.origin() != base.origin() {
            return Err(FetchError::Address(discovery.jwks_uri));
        }
        let set: KeySet = self.get(jwks.as_str()).await?;
        let keys = set.keys.into_iter().take(KEYS_MAX);
        Ok(keys.filter_map(usable).collect())
    }

    fn allowed(&self, address: &str) -> Result<Url, FetchError> {
        let refused = || FetchError::Address(address.to_owned());
        let url = Url::parse(address).map_err(|_| refused())?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let may = is_plain
            && match url.scheme() {
                "https" => true,
                "http" => self.dev && crate::start::is_loopback(&url),
                _ => false,
            };
        if may { Ok(url) } else { Err(refused()) }
    }

    async fn get<T: DeserializeOwned>(&self, address: &str) -> Result<T, FetchError> {
        let http = |error| FetchError::Http {
            address: address.to_owned(),
            error,
        };
        let mut response = self
            .http
            .get(address)
            .timeout(FETCH_WITHIN)
            .send()
            .await
            .map_err(http)?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(FetchError::Status(address.to_owned(), status));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(http)? {
            if body.len() + chunk.len() > BODY_MAX {
                return Err(FetchError::TooLarge(address.to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|_| FetchError::Unreadable(address.to_owned()))
    }
}

/// A published key, if it is one that signs tokens in a way that we accept.
fn usable(value: Value) -> Option<(String, Key)> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            Algorithm::ES256
        }
        _ => return None,
    };
    let agrees = match jwk.common.key_algorithm {
        None => true,
        Some(KeyAlgorithm::RS256) => algorithm == Algorithm::RS256,
        Some(KeyAlgorithm::ES256) => algorithm == Algorithm::ES256,
        Some(_) => false,
    };
    let signs = matches!(
        jwk.common.public_key_use,
        None | Some(PublicKeyUse::Signature)
    );
    if !agrees || !signs {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    Some((jwk.common.key_id?, Key { algorithm, key }))
}
