//! The issuer's signing key, made once and kept in the state folder.

use std::{fs, io, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use anyhow::{Context, anyhow};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
    signature::KeyPair as _,
};
use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) struct Key {
    signer: EncodingKey,
    id: String,
    public: Value,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Key {
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("oidc-key.der");
        let der = match fs::read(&path) {
            Ok(der) => der,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pair = KeyPair::generate(KeySize::Rsa2048)
                    .map_err(|_| anyhow!("cannot make the issuer's key"))?;
                let der: Pkcs8V1Der<'_> = pair
                    .as_der()
                    .map_err(|_| anyhow!("cannot write the issuer's key"))?;
                fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)
                    .and_then(|mut file| file.write_all(der.as_ref()))
                    .with_context(|| format!("cannot write {}", path.display()))?;
                der.as_ref().to_vec()
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        Self::from_pkcs8(&der).with_context(|| {
            format!(
                "{} is not a key: remove it to get a new one",
                path.display()
            )
        })
    }

    fn from_pkcs8(der: &[u8]) -> anyhow::Result<Self> {
        let pair = KeyPair::from_pkcs8(der).map_err(|error| anyhow!("{error}"))?;
        let modulus = pair
            .public_key()
            .modulus()
            .big_endian_without_leading_zero()
            .to_vec();
        let exponent = pair
            .public_key()
            .exponent()
            .big_endian_without_leading_zero()
            .to_vec();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            BASE64_STANDARD.encode(der)
        );
        let digest = Sha256::digest(&modulus);
        let id = BASE64_URL_SAFE_NO_PAD.encode(&digest[..12]);
        let public = json!({
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": id,
            "n": BASE64_URL_SAFE_NO_PAD.encode(modulus),
            "e": BASE64_URL_SAFE_NO_PAD.encode(exponent),
        });
        Ok(Self {
            signer: EncodingKey::from_rsa_pem(pem.as_bytes())?,
            id,
            public,
        })
    }

    /// The public half, as a JWK set.
    pub(crate) fn set(&self) -> Value {
        json!({"keys": [self.public]})
    }

    /// A signed token; `kind` is the header's `typ`.
    pub(crate) fn sign(&self, kind: &str, claims: &Value) -> anyhow::Result<String> {
        let mut header = Header::new(Algorithm::RS256);
        header.typ = Some(kind.to_owned());
        header.kid = Some(self.id.clone());
        Ok(jsonwebtoken::encode(&header, claims, &self.signer)?)
    }
}
