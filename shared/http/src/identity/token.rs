//! An access token (JWT): read first, believed only after [`Token::verify`].

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toshi_core::Millis;

use super::keys::Key;
use crate::{Code, Problem};

/// What a token's header may say.
const ALGORITHMS: [Algorithm; 2] = [Algorithm::RS256, Algorithm::ES256];
/// What an issuer may call an access token in its header; one that says nothing is believed for its
/// audience. Other kinds of tokens of the same issuer say what they are, and none is one of these.
const KINDS: [&str; 3] = ["at+jwt", "application/at+jwt", "JWT"];
/// How far the issuer's clock and ours may be apart, in seconds.
const LEEWAY_S: i64 = 30;

#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: f64,
    #[serde(default)]
    nbf: Option<f64>,
    /// Selects among the person's schools.
    #[serde(default)]
    tenant: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn names(&self, wanted: &str) -> bool {
        match self {
            Self::One(name) => name == wanted,
            Self::Many(names) => names.iter().any(|name| name == wanted),
        }
    }
}

/// A token as its bearer wrote it.
#[derive(Debug)]
pub(super) struct Token<'a> {
    signed: &'a str,
    signature: &'a str,
    algorithm: Algorithm,
    kid: String,
    claims: Claims,
}

impl<'a> Token<'a> {
    /// Takes it apart; nothing of it is believed yet.
    pub(super) fn read(text: &'a str) -> Result<Self, Problem> {
        Self::parse(text).ok_or_else(|| Problem::new(Code::TokenInvalid))
    }

    fn parse(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if signature.is_empty() || claims.contains('.') {
            return None;
        }
        let header: Header = decode(header)?;
        // Extensions that must be understood: we understand none.
        if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
            return None;
        }
        let is_listed = |typ: &String| KINDS.iter().any(|kind| kind.eq_ignore_ascii_case(typ));
        if !header.typ.as_ref().is_none_or(is_listed) {
            return None;
        }
        Some(Self {
            signed,
            signature,
            algorithm: header.alg,
            kid: header.kid?,
            claims: decode(claims)?,
        })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.claims.iss
    }

    pub(super) fn subject(&self) -> &str {
        &self.claims.sub
    }

    pub(super) fn tenant(&self) -> Option<&str> {
        self.claims.tenant.as_deref()
    }

    pub(super) fn kid(&self) -> &str {
        &self.kid
    }

    /// The signature under `key`, then the claims. The issuer was compared when `key` was chosen.
    pub(super) fn verify(&self, key: &Key, audiences: &[&str], now: Millis) -> Result<(), Problem> {
        let invalid = || Problem::new(Code::TokenInvalid);
        // The key says which algorithm it is for; the header only has to agree.
        if key.algorithm != self.algorithm {
            return Err(invalid());
        }
        let genuine = jsonwebtoken::crypto::verify(
            self.signature,
            self.signed.as_bytes(),
            &key.key,
            self.algorithm,
        )
        .map_err(|_| invalid())?;
        if !genuine {
            return Err(invalid());
        }
        let now_s = as_f64(now.as_epoch_seconds());
        let leeway = as_f64(LEEWAY_S);
        if now_s - leeway >= self.claims.exp {
            return Err(Problem::new(Code::TokenExpired));
        }
        if self.claims.nbf.is_some_and(|nbf| nbf > now_s + leeway) {
            return Err(invalid());
        }
        if !audiences.iter().any(|name| self.claims.aud.names(name)) {
            return Err(Problem::new(Code::WrongAudience));
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds since 1970 stay below 2^53"
)]
fn as_f64(seconds: i64) -> f64 {
    seconds as f64
}

fn decode<T: DeserializeOwned>(part: &str) -> Option<T> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.c2ln", encode(header), encode(claims))
    }

    const CLAIMS: &str = r#"{"iss":"https://i","sub":"s","aud":"a","exp":1}"#;

    #[test]
    fn only_listed_algorithms_and_kinds_with_a_key_id_are_read() {
        assert!(Token::parse(&token(r#"{"alg":"RS256","kid":"k"}"#, CLAIMS)).is_some());
        assert!(Token::parse(&token(r#"{"alg":"ES256","kid":"k"}"#, CLAIMS)).is_some());
        for kind in ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"] {
            let header = format!(r#"{{"alg":"RS256","kid":"k","typ":"{kind}"}}"#);
            assert!(Token::parse(&token(&header, CLAIMS)).is_some(), "{kind}");
        }
        for header in [
            r#"{"alg":"none","kid":"k"}"#,
            r#"{"alg":"None","kid":"k"}"#,
            r#"{"alg":"HS256","kid":"k"}"#,
            r#"{"alg":"RS512","kid":"k"}"#,
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"RS256","kid":"k","crit":["b64"]}"#,
            r#"{"alg":"RS256","kid":"k","typ":"logout+jwt"}"#,
            r#"{"alg":"RS256","kid":"k","typ":"dpop+jwt"}"#,
            r#"{"alg":"RS256","kid":"k","typ":""}"#,
            "{}",
        ] {
            assert!(Token::parse(&token(header, CLAIMS)).is_none(), "{header}");
        }
    }

    #[test]
    fn a_token_in_pieces_is_no_token() {
        let good = token(r#"{"alg":"RS256","kid":"k"}"#, CLAIMS);
        let unsigned = good.rsplit_once('.').unwrap().0;
        for bad in [
            "",
            ".",
            "..",
            "a.b",
            "a.b.c.d",
            unsigned,
            &format!("{unsigned}."),
        ] {
            assert!(Token::parse(bad).is_none(), "{bad:?}");
        }
        let without_sub = token(
            r#"{"alg":"RS256","kid":"k"}"#,
            r#"{"iss":"i","aud":"a","exp":1}"#,
        );
        assert!(Token::parse(&without_sub).is_none());
    }

    #[test]
    fn an_audience_is_one_name_or_a_list() {
        assert!(Audience::One("a".to_owned()).names("a"));
        assert!(Audience::Many(vec!["b".to_owned(), "a".to_owned()]).names("a"));
        assert!(!Audience::Many(Vec::new()).names("a"));
    }
}
