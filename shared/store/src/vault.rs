//! Envelope encryption: one KMS data key a blob, AES-256-GCM, bound to where the blob belongs.
//!
//! Blob: `version(1) | nonce(12) | ciphertext and tag`. The context (environment, tenant,
//! connection, type, purpose, version of the row) is the KMS encryption context and, with the row's
//! version, the associated data: a blob moved to another row does not open.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::DataKeySpec;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use toshi_core::{ConnectionId, Millis, Sha256Hex, TenantId};
use zeroize::Zeroizing;

use crate::item::{Expression, to_item};
use crate::{Store, StoreError, keys};

const FORMAT: u8 = 1;
/// Unwrapped data keys: how long and how many are kept. Never a token.
const CACHE_MS: i64 = 5 * 60 * 1000;
const CACHE_MAX: usize = 256;

/// The KMS keys, split so that plain IAM says which function opens what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyName {
    /// Access tokens.
    Access,
    /// The model's key and HMAC secrets.
    Platform,
}

#[derive(Clone, Debug, Default)]
pub struct VaultConfig {
    /// Key ids or ARNs; a function has only those it needs.
    pub access: Option<String>,
    pub platform: Option<String>,
    /// The deployment's environment, part of every context.
    pub environment: String,
}

/// Where a blob belongs.
#[derive(Clone, Debug)]
pub struct SealContext<'a> {
    pub key: KeyName,
    pub tenant: Option<&'a TenantId>,
    pub connection: Option<&'a ConnectionId>,
    pub kind: &'a str,
    pub purpose: &'a str,
    /// The row's version: an older blob put back does not open.
    pub version: u64,
    pub epoch: u64,
}

impl SealContext<'_> {
    fn pairs(&self, environment: &str) -> BTreeMap<String, String> {
        let mut pairs = BTreeMap::from([
            ("app".to_owned(), "toshi".to_owned()),
            ("env".to_owned(), environment.to_owned()),
            ("type".to_owned(), self.kind.to_owned()),
            ("purpose".to_owned(), self.purpose.to_owned()),
            ("format".to_owned(), FORMAT.to_string()),
        ]);
        if let Some(tenant) = self.tenant {
            pairs.insert("tenant".to_owned(), tenant.to_string());
        }
        if let Some(connection) = self.connection {
            pairs.insert("connection".to_owned(), connection.to_string());
        }
        pairs
    }

    fn associated_data(&self, environment: &str) -> Vec<u8> {
        let mut data = String::new();
        for (key, value) in self.pairs(environment) {
            data.push_str(&key);
            data.push('=');
            data.push_str(&value);
            data.push('\0');
        }
        data.push_str(&format!("version={}\0epoch={}", self.version, self.epoch));
        data.into_bytes()
    }
}

/// A sealed value as a row keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The data key under KMS, base64.
    pub data_key: String,
    /// The blob, base64.
    pub blob: String,
}

struct Cached {
    key: Arc<Zeroizing<Vec<u8>>>,
    until: Millis,
}

#[derive(Clone)]
pub struct Vault {
    kms: aws_sdk_kms::Client,
    config: VaultConfig,
    cache: Arc<Mutex<HashMap<Sha256Hex, Cached>>>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}

impl Vault {
    pub fn new(kms: aws_sdk_kms::Client, config: VaultConfig) -> Self {
        Self {
            kms,
            config,
            cache: Arc::default(),
        }
    }

    fn key_id(&self, name: KeyName) -> Result<&str, StoreError> {
        let id = match name {
            KeyName::Access => &self.config.access,
            KeyName::Platform => &self.config.platform,
        };
        id.as_deref().ok_or(StoreError::Sealed(
            "this function has no access to that key",
        ))
    }

    pub async fn seal(
        &self,
        context: &SealContext<'_>,
        secret: &SecretString,
    ) -> Result<Sealed, StoreError> {
        let output = self
            .kms
            .generate_data_key()
            .key_id(self.key_id(context.key)?)
            .key_spec(DataKeySpec::Aes256)
            .set_encryption_context(Some(self.kms_context(context)))
            .send()
            .await
            .map_err(|error| StoreError::service("KMS", error))?;
        let plain = output
            .plaintext
            .ok_or(StoreError::Sealed("KMS returned no key"))?;
        let plain = Zeroizing::new(plain.into_inner());
        let wrapped = output
            .ciphertext_blob
            .ok_or(StoreError::Sealed("KMS returned no key"))?;
        let data = context.associated_data(&self.config.environment);
        let blob = seal_under(&plain, data, secret)?;
        Ok(Sealed {
            data_key: encode(wrapped.as_ref()),
            blob: encode(&blob),
        })
    }

    pub async fn open(
        &self,
        context: &SealContext<'_>,
        sealed: &Sealed,
        now: Millis,
    ) -> Result<SecretString, StoreError> {
        let blob = decode(&sealed.blob)?;
        if blob.first() != Some(&FORMAT) {
            return Err(StoreError::Sealed("its format is not known"));
        }
        let key = self.data_key(context, sealed, now).await?;
        open_under(
            &key,
            context.associated_data(&self.config.environment),
            &blob,
        )
    }

    async fn data_key(
        &self,
        context: &SealContext<'_>,
        sealed: &Sealed,
        now: Millis,
    ) -> Result<Arc<Zeroizing<Vec<u8>>>, StoreError> {
        // The context is part of the name, so that a cached key cannot open another row's blob.
        let name = format!(
            "{:?}\0{}",
            self.kms_context_sorted(context),
            sealed.data_key
        );
        let name = Sha256Hex::of(name.as_bytes());
        if let Some(key) = self.cached(&name, now) {
            return Ok(key);
        }
        let output = self
            .kms
            .decrypt()
            .key_id(self.key_id(context.key)?)
            .ciphertext_blob(Blob::new(decode(&sealed.data_key)?))
            .set_encryption_context(Some(self.kms_context(context)))
            .send()
            .await
            .map_err(|error| {
                let invalid = error.as_service_error().is_some_and(
                    aws_sdk_kms::operation::decrypt::DecryptError::is_invalid_ciphertext_exception,
                );
                if invalid {
                    StoreError::Sealed("its key belongs to another row")
                } else {
                    StoreError::service("KMS", error)
                }
            })?;
        let plain = output
            .plaintext
            .ok_or(StoreError::Sealed("KMS returned no key"))?;
        let key = Arc::new(Zeroizing::new(plain.into_inner()));
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHE_MAX {
            cache.retain(|_, cached| now < cached.until);
        }
        if cache.len() < CACHE_MAX {
            cache.insert(
                name,
                Cached {
                    key: Arc::clone(&key),
                    until: now.plus(CACHE_MS),
                },
            );
        }
        Ok(key)
    }

    fn cached(&self, name: &Sha256Hex, now: Millis) -> Option<Arc<Zeroizing<Vec<u8>>>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        match cache.get(name) {
            Some(cached) if now < cached.until => Some(Arc::clone(&cached.key)),
            Some(_) => {
                cache.remove(name);
                None
            }
            None => None,
        }
    }

    fn kms_context(&self, context: &SealContext<'_>) -> HashMap<String, String> {
        context
            .pairs(&self.config.environment)
            .into_iter()
            .collect()
    }

    fn kms_context_sorted(&self, context: &SealContext<'_>) -> BTreeMap<String, String> {
        context.pairs(&self.config.environment)
    }

    /// The platform secret `name`, from its row.
    pub async fn platform_secret(
        &self,
        store: &Store,
        name: &str,
        now: Millis,
    ) -> Result<SecretString, StoreError> {
        let row: Option<SecretRow> = store.get_row(&keys::platform_secret(name)).await?;
        let row = row.ok_or_else(|| StoreError::NoSecret(name.to_owned()))?;
        self.open(&secret_context(name, row.version), &row.sealed, now)
            .await
    }

    /// Sets a platform secret. With `keep`, one that exists stays as it is.
    pub async fn set_platform_secret(
        &self,
        store: &Store,
        name: &str,
        secret: &SecretString,
        keep: bool,
    ) -> Result<bool, StoreError> {
        let key = keys::platform_secret(name);
        let old: Option<SecretRow> = store.get_row(&key).await?;
        let (version, condition) = match &old {
            Some(_) if keep => return Ok(false),
            Some(row) => (
                row.version + 1,
                Expression::equals("version", crate::item::n(row.version)),
            ),
            None => (1, Expression::absent()),
        };
        let sealed = self.seal(&secret_context(name, version), secret).await?;
        let item = to_item(
            &key,
            &SecretRow {
                name: name.to_owned(),
                version,
                sealed,
            },
        )?;
        match store.put(item, Some(condition)).await? {
            true => Ok(true),
            // Another made it meanwhile: one exists, and it stays.
            false if keep => Ok(false),
            false => Err(StoreError::Conflict),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SecretRow {
    name: String,
    version: u64,
    sealed: Sealed,
}

fn secret_context(name: &str, version: u64) -> SealContext<'_> {
    SealContext {
        key: KeyName::Platform,
        tenant: None,
        connection: None,
        kind: name,
        purpose: "secret",
        version,
        epoch: 0,
    }
}

/// HMAC-SHA-256 of an argument hash, in hex.
pub fn hmac_hex(key: &SecretString, hash: &Sha256Hex) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose_secret().as_bytes());
    hex::encode(hmac::sign(&key, hash.as_str().as_bytes()))
}

/// The blob of a secret under a data key, bound to the associated data.
fn seal_under(key: &[u8], data: Vec<u8>, secret: &SecretString) -> Result<Vec<u8>, StoreError> {
    let mut nonce = [0_u8; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| StoreError::Sealed("no randomness"))?;
    let mut body = secret.expose_secret().as_bytes().to_vec();
    cipher(key)?
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(data),
            &mut body,
        )
        .map_err(|_| StoreError::Sealed("sealing failed"))?;
    let mut blob = vec![FORMAT];
    blob.extend_from_slice(&nonce);
    blob.extend_from_slice(&body);
    Ok(blob)
}

fn open_under(key: &[u8], data: Vec<u8>, blob: &[u8]) -> Result<SecretString, StoreError> {
    let unknown = || StoreError::Sealed("its format is not known");
    let (format, rest) = blob.split_first().ok_or_else(unknown)?;
    let (nonce, body) = rest.split_at_checked(NONCE_LEN).ok_or_else(unknown)?;
    if *format != FORMAT {
        return Err(unknown());
    }
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| unknown())?;
    let mut body = Zeroizing::new(body.to_vec());
    let plain = cipher(key)?
        .open_in_place(nonce, Aad::from(data), &mut body)
        .map_err(|_| StoreError::Sealed("it was altered or belongs to another row"))?;
    let text = std::str::from_utf8(plain).map_err(|_| StoreError::Sealed("it is not text"))?;
    Ok(SecretString::from(text.to_owned()))
}

fn cipher(key: &[u8]) -> Result<LessSafeKey, StoreError> {
    let key = UnboundKey::new(&AES_256_GCM, key)
        .map_err(|_| StoreError::Sealed("the data key has the wrong size"))?;
    Ok(LessSafeKey::new(key))
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn decode(text: &str) -> Result<Vec<u8>, StoreError> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|_| StoreError::Sealed("it is not base64"))
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
