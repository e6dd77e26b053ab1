//! Codes that work once and refresh tokens that rotate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rand::random;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{clock::now_s, saved::Saved};

const CODE_LIFE_S: i64 = 60;
const REFRESH_LIFE_S: i64 = 30 * 24 * 3600;
const MOST_CODES: usize = 1000;
const MOST_FAMILIES: usize = 500;
const MOST_SPENT: usize = 50;

/// What a person agreed to on the sign-in page.
#[derive(Debug, Clone)]
pub(crate) struct Consent {
    pub(crate) subject: String,
    pub(crate) redirect_uri: String,
    pub(crate) challenge: String,
    pub(crate) scope: String,
    pub(crate) nonce: Option<String>,
}

/// One sign-in: the refresh token in use and those it replaced, as hashes.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Family {
    id: String,
    subject: String,
    scope: String,
    current: String,
    spent: Vec<String>,
    expires_s: i64,
}

/// A sign-in that may go on: whose it is and the next refresh token.
#[derive(Debug)]
pub(crate) struct Renewed {
    pub(crate) subject: String,
    pub(crate) scope: String,
    pub(crate) refresh_token: String,
}

#[derive(Debug)]
struct Code {
    expires_s: i64,
    state: CodeState,
}

#[derive(Debug)]
enum CodeState {
    Fresh(Consent),
    /// Holds the sign-in it started, which a second use ends.
    Used(Option<String>),
}

#[derive(Debug)]
pub(crate) struct Grants {
    codes: Mutex<HashMap<String, Code>>,
    saved: Arc<Saved>,
}

impl Grants {
    pub(crate) fn new(saved: Arc<Saved>) -> Self {
        Self {
            codes: Mutex::default(),
            saved,
        }
    }

    pub(crate) fn code(&self, consent: Consent) -> String {
        let code = secret();
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, code| code.expires_s > now_s());
        if codes.len() >= MOST_CODES {
            codes.clear();
        }
        let expires_s = now_s() + CODE_LIFE_S;
        codes.insert(
            hash(&code),
            Code {
                expires_s,
                state: CodeState::Fresh(consent),
            },
        );
        code
    }

    /// Spends a code, right or wrong: a code is for one try. `None`: unknown, expired, used or
    /// not for this redirect address and verifier.
    pub(crate) fn redeem(
        &self,
        code: &str,
        redirect_uri: &str,
        verifier: &str,
    ) -> Option<(Consent, Renewed)> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = codes.get_mut(&hash(code))?;
        let consent = match std::mem::replace(&mut entry.state, CodeState::Used(None)) {
            CodeState::Fresh(consent) => consent,
            CodeState::Used(family) => {
                self.saved.change(|data| {
                    data.sign_ins
                        .retain(|sign_in| Some(&sign_in.id) != family.as_ref());
                });
                return None;
            }
        };
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        if entry.expires_s <= now_s()
            || consent.redirect_uri != redirect_uri
            || consent.challenge != challenge
        {
            return None;
        }
        let refresh_token = secret();
        let family = Family {
            id: secret(),
            subject: consent.subject.clone(),
            scope: consent.scope.clone(),
            current: hash(&refresh_token),
            spent: Vec::new(),
            expires_s: now_s() + REFRESH_LIFE_S,
        };
        entry.state = CodeState::Used(Some(family.id.clone()));
        let (subject, scope) = (family.subject.clone(), family.scope.clone());
        self.saved.change(|data| {
            data.sign_ins.retain(|sign_in| sign_in.expires_s > now_s());
            if data.sign_ins.len() >= MOST_FAMILIES {
                data.sign_ins.remove(0);
            }
            data.sign_ins.push(family);
        });
        Some((
            consent,
            Renewed {
                subject,
                scope,
                refresh_token,
            },
        ))
    }

    /// Swaps a refresh token for the next one. A token used twice ends the whole sign-in.
    pub(crate) fn renew(&self, refresh_token: &str) -> Option<Renewed> {
        let presented = hash(refresh_token);
        self.saved.change(|data| {
            data.sign_ins
                .retain(|sign_in| !sign_in.spent.contains(&presented));
            let family = data
                .sign_ins
                .iter_mut()
                .find(|sign_in| sign_in.current == presented)?;
            if family.expires_s <= now_s() {
                return None;
            }
            let next = secret();
            family
                .spent
                .push(std::mem::replace(&mut family.current, hash(&next)));
            if family.spent.len() > MOST_SPENT {
                family.spent.remove(0);
            }
            Some(Renewed {
                subject: family.subject.clone(),
                scope: family.scope.clone(),
                refresh_token: next,
            })
        })
    }

    /// Ends every sign-in of a person.
    pub(crate) fn end(&self, subject: &str) {
        self.saved
            .change(|data| data.sign_ins.retain(|sign_in| sign_in.subject != subject));
    }
}

/// 256 random bits, printable.
pub(crate) fn secret() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(random::<[u8; 32]>())
}

fn hash(token: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token))
}
