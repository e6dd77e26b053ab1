//! The token endpoint, and tokens on demand for tests and the command line.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Form, State, rejection::FormRejection, rejection::JsonRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AUDIENCE, CLIENT, Issuer, SCOPE,
    accounts::{self, Account},
    grants::{Renewed, secret},
};
use crate::{App, clock::now_s, problem::Problem};

const ACCESS_LIFE_S: i64 = 3600;
/// Longest life, in either direction, of a token made for a test.
const LONGEST_LIFE_S: i64 = 365 * 24 * 3600;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Exchange {
    grant_type: String,
    client_id: String,
    code: String,
    redirect_uri: String,
    code_verifier: String,
    refresh_token: String,
}

pub(super) async fn exchange(
    State(app): State<Arc<App>>,
    form: Result<Form<Exchange>, FormRejection>,
) -> Response {
    let Ok(Form(ask)) = form else {
        return refused("invalid_request", "the body must be a form");
    };
    if ask.client_id != CLIENT {
        return refused("invalid_client", "this application is not known here");
    }
    let issuer = &app.issuer;
    match ask.grant_type.as_str() {
        "authorization_code" => {
            match issuer
                .grants
                .redeem(&ask.code, &ask.redirect_uri, &ask.code_verifier)
            {
                Some((consent, renewed)) => issuer.answer(&renewed, consent.nonce.as_deref()),
                None => refused(
                    "invalid_grant",
                    "the code is unknown, used, expired or not yours",
                ),
            }
        }
        "refresh_token" => match issuer.grants.renew(&ask.refresh_token) {
            Some(renewed) => issuer.answer(&renewed, None),
            None => refused(
                "invalid_grant",
                "the refresh token is unknown, used or expired",
            ),
        },
        _ => refused(
            "unsupported_grant_type",
            "known: authorization_code, refresh_token",
        ),
    }
}

fn refused(error: &str, description: &str) -> Response {
    let body = Json(json!({"error": error, "error_description": description}));
    (
        StatusCode::BAD_REQUEST,
        [(header::CACHE_CONTROL, "no-store")],
        body,
    )
        .into_response()
}

impl Issuer {
    fn answer(&self, renewed: &Renewed, nonce: Option<&str>) -> Response {
        let Some(account) = accounts::by_subject(&renewed.subject) else {
            return refused("invalid_grant", "this person is no longer known");
        };
        let tokens = self.tokens(&account, renewed, nonce);
        match tokens {
            Ok(tokens) => ([(header::CACHE_CONTROL, "no-store")], Json(tokens)).into_response(),
            Err(error) => failed(&error),
        }
    }

    fn tokens(
        &self,
        account: &Account,
        renewed: &Renewed,
        nonce: Option<&str>,
    ) -> anyhow::Result<Value> {
        let mut tokens = json!({
            "access_token": self.access_token(account, &renewed.scope, AUDIENCE, ACCESS_LIFE_S)?,
            "token_type": "Bearer",
            "expires_in": ACCESS_LIFE_S,
            "refresh_token": renewed.refresh_token,
            "scope": renewed.scope,
        });
        if renewed.scope.split(' ').any(|scope| scope == "openid") {
            let mut claims = json!({
                "iss": self.url,
                "sub": account.subject,
                "aud": CLIENT,
                "iat": now_s(),
                "exp": now_s() + ACCESS_LIFE_S,
                "name": account.name,
            });
            if let Some(nonce) = nonce {
                claims["nonce"] = json!(nonce);
            }
            if let Some(tenant) = account.tenant {
                claims["tenant"] = json!(tenant);
            }
            tokens["id_token"] = json!(self.key.sign("JWT", &claims)?);
        }
        Ok(tokens)
    }

    fn access_token(
        &self,
        account: &Account,
        scope: &str,
        audience: &str,
        life_s: i64,
    ) -> anyhow::Result<String> {
        let now = now_s();
        let mut claims = json!({
            "iss": self.url,
            "sub": account.subject,
            "aud": audience,
            // An expired token was issued before it expired.
            "iat": now.min(now + life_s) - i64::from(life_s < 0),
            "exp": now + life_s,
            "jti": secret(),
            "client_id": CLIENT,
            "scope": scope,
            "name": account.name,
        });
        if let Some(tenant) = account.tenant {
            claims["tenant"] = json!(tenant);
        }
        self.key.sign("at+jwt", &claims)
    }

    /// Whose ID token this is, expired or not; `None` if this issuer did not sign it.
    pub(super) fn person_of(&self, id_token: &str) -> Option<String> {
        let set = self.key.set();
        let public = set["keys"].get(0)?;
        let key =
            DecodingKey::from_rsa_components(public["n"].as_str()?, public["e"].as_str()?).ok()?;
        let mut rules = Validation::new(Algorithm::RS256);
        rules.validate_exp = false;
        rules.set_audience(&[CLIENT]);
        rules.set_issuer(&[&self.url]);
        let claims = jsonwebtoken::decode::<Value>(id_token, &key, &rules)
            .ok()?
            .claims;
        claims["sub"].as_str().map(str::to_owned)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    tenant: Option<String>,
    #[serde(rename = "as")]
    person: String,
    ttl: Option<i64>,
    audience: Option<String>,
}

/// `POST /_sandbox/token`: an access token as text.
pub(crate) async fn mint(
    State(app): State<Arc<App>>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Response {
    let wanted = match wanted {
        Ok(Json(wanted)) => wanted,
        Err(error) => return Problem::bad_request(error.body_text()).into_response(),
    };
    let subject = match (wanted.tenant.as_deref(), wanted.person.as_str()) {
        (_, accounts::OPERATOR) => accounts::OPERATOR.to_owned(),
        (tenant, person) => format!("{}-{person}", tenant.unwrap_or_default()),
    };
    let Some(account) = accounts::by_subject(&subject) else {
        let schools: Vec<_> = accounts::SCHOOLS.iter().map(|school| school.id).collect();
        let people: Vec<_> = accounts::PEOPLE.iter().map(|(person, _)| *person).collect();
        let detail = format!(
            "There is no such person. Schools: {}. People: {}; or operator.",
            schools.join(", "),
            people.join(", ")
        );
        return Problem::bad_request(detail).into_response();
    };
    let life_s = wanted
        .ttl
        .unwrap_or(ACCESS_LIFE_S)
        .clamp(-LONGEST_LIFE_S, LONGEST_LIFE_S);
    let audience = wanted.audience.as_deref().unwrap_or(AUDIENCE);
    match app.issuer.access_token(&account, SCOPE, audience, life_s) {
        Ok(token) => ([(header::CACHE_CONTROL, "no-store")], token).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> Response {
    let detail = format!("The issuer cannot sign: {error}.");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
}
