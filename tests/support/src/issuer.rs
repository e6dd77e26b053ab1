//! An OIDC issuer of one test: discovery, keys, and tokens of any kind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::now;

pub const AUDIENCE: &str = "https://api.toshi.test";

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Issuer {
    pub url: String,
    served: Arc<Served>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Served {
    url: Mutex<String>,
    /// What the discovery document names instead of our own keys.
    jwks_uri: Mutex<Option<String>>,
    key: Mutex<Option<Signer>>,
    fetches: AtomicUsize,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Signer {
    kid: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    fn new(algorithm: Algorithm) -> Self {
        let (label, der) = match algorithm {
            Algorithm::RS256 => ("rsa", rsa_key()),
            _ => ("ec", ec_key()),
        };
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        let key = match algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(pem.as_bytes()),
            _ => EncodingKey::from_ec_pem(pem.as_bytes()),
        };
        Self {
            kid: format!("{label}-{:x}", rand::random::<u32>()),
            algorithm,
            key: key.expect("a key"),
        }
    }

    fn public(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a public key");
        let mut value = serde_json::to_value(jwk).expect("JSON");
        value["kid"] = json!(self.kid);
        value["use"] = json!("sig");
        value
    }

    fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.key).expect("a token")
    }
}

fn ec_key() -> Vec<u8> {
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .expect("a key pair")
        .as_ref()
        .to_vec()
}

fn rsa_key() -> Vec<u8> {
    let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).expect("a key pair");
    let der: Pkcs8V1Der<'_> = pair.as_der().expect("its encoding");
    der.as_ref().to_vec()
}

impl Issuer {
    /// Signs with ES256.
    pub async fn start() -> Self {
        Self::with(Algorithm::ES256).await
    }

    pub async fn start_rsa() -> Self {
        Self::with(Algorithm::RS256).await
    }

    async fn with(algorithm: Algorithm) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let served = Arc::new(Served::default());
        *lock(&served.url) = url.clone();
        *lock(&served.key) = Some(Signer::new(algorithm));
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .with_state(Arc::clone(&served));
        #[expect(clippy::disallowed_methods, reason = "the handle is aborted on drop")]
        let task = tokio::spawn(async move {
            axum::serve(listener, routes)
                .await
                .expect("the issuer serves");
        });
        Self { url, served, task }
    }

    /// Claims of a person, good for an hour.
    pub fn claims(&self, subject: &str) -> Value {
        let now = now().as_epoch_seconds();
        json!({
            "iss": self.url,
            "sub": subject,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 3600,
        })
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.signer().sign(claims)
    }

    /// Signs with our key and names another one.
    pub fn sign_as(&self, kid: &str, claims: &Value) -> String {
        let signer = Signer {
            kid: kid.to_owned(),
            ..self.signer()
        };
        signer.sign(claims)
    }

    /// A good token of this person.
    pub fn token(&self, subject: &str) -> String {
        self.sign(&self.claims(subject))
    }

    /// The key's id, for tokens that are forged.
    pub fn kid(&self) -> String {
        self.signer().kid
    }

    /// Signs with a new key from now on, and publishes it alone.
    pub fn rotate(&self) {
        let algorithm = self.signer().algorithm;
        *lock(&self.served.key) = Some(Signer::new(algorithm));
    }

    /// Names another place for the keys.
    pub fn point_keys_at(&self, address: &str) {
        *lock(&self.served.jwks_uri) = Some(address.to_owned());
    }

    /// How often the keys were fetched.
    pub fn fetches(&self) -> usize {
        self.served.fetches.load(Ordering::SeqCst)
    }

    fn signer(&self) -> Signer {
        lock(&self.served.key).clone().expect("a key")
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn discovery(State(served): State<Arc<Served>>) -> Json<Value> {
    let url = lock(&served.url).clone();
    let other = lock(&served.jwks_uri).clone();
    let keys = other.unwrap_or_else(|| format!("{url}/keys"));
    Json(json!({ "issuer": url, "jwks_uri": keys }))
}

async fn keys(State(served): State<Arc<Served>>) -> Json<Value> {
    served.fetches.fetch_add(1, Ordering::SeqCst);
    let key = lock(&served.key).as_ref().map(Signer::public);
    // Kinds of keys that we do not use stand beside it, as they do at real issuers.
    Json(json!({ "keys": [
        { "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "ed" },
        { "kty": "unheard-of", "kid": "new" },
        key,
    ] }))
}
