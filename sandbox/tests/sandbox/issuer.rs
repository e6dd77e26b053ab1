//! The issuer: signing in with a code, refreshing, signing out, tokens for tests.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
use reqwest::{Response, Url};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Here, problem};

const VERIFIER: &str = "a-verifier-that-is-long-enough-to-be-one-0123456789";

fn challenge() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

fn ask(here: &Here) -> Vec<(&'static str, String)> {
    vec![
        ("client_id", "toshi-web".into()),
        ("redirect_uri", here.at("/callback")),
        ("response_type", "code".into()),
        ("scope", "openid toshi".into()),
        ("state", "s-1".into()),
        ("nonce", "n-1".into()),
        ("code_challenge", challenge()),
        ("code_challenge_method", "S256".into()),
    ]
}

/// The parameters with which the browser was sent back.
fn sent_back(here: &Here, response: &Response) -> anyhow::Result<HashMap<String, String>> {
    ensure!(response.status() == 303, "{}", response.status());
    let target = Url::parse(response.headers()["location"].to_str()?)?;
    ensure!(
        target.as_str().starts_with(&here.at("/callback?")),
        "{target}"
    );
    Ok(target.query_pairs().into_owned().collect())
}

async fn sign_in(here: &Here, person: &str) -> anyhow::Result<String> {
    let mut form = ask(here);
    form.push(("person", person.to_owned()));
    let response = form_to(here, "/_sandbox/oidc/authorize", &form).await?;
    let answer = sent_back(here, &response)?;
    ensure!(
        answer["state"] == "s-1" && answer["iss"] == here.at("/_sandbox/oidc"),
        "{answer:?}"
    );
    answer.get("code").cloned().context("no code")
}

async fn form_to(here: &Here, path: &str, pairs: &[(&str, String)]) -> anyhow::Result<Response> {
    let mut url = Url::parse("http://form/")?;
    url.query_pairs_mut().extend_pairs(pairs);
    let body = url.query().unwrap_or_default().to_owned();
    let request = here.http.post(here.at(path)).body(body);
    Ok(request
        .header("content-type", "application/x-www-form-urlencoded")
        .send()
        .await?)
}

async fn redeem(here: &Here, code: &str, verifier: &str) -> anyhow::Result<(u16, Value)> {
    let pairs = [
        ("grant_type", "authorization_code".to_owned()),
        ("client_id", "toshi-web".to_owned()),
        ("code", code.to_owned()),
        ("redirect_uri", here.at("/callback")),
        ("code_verifier", verifier.to_owned()),
    ];
    let response = form_to(here, "/_sandbox/oidc/token", &pairs).await?;
    Ok((response.status().as_u16(), response.json().await?))
}

async fn refresh(here: &Here, token: &Value) -> anyhow::Result<(u16, Value)> {
    let pairs = [
        ("grant_type", "refresh_token".to_owned()),
        ("client_id", "toshi-web".to_owned()),
        (
            "refresh_token",
            token.as_str().unwrap_or_default().to_owned(),
        ),
    ];
    let response = form_to(here, "/_sandbox/oidc/token", &pairs).await?;
    Ok((response.status().as_u16(), response.json().await?))
}

/// Verifies a token as a function does: by the key set that discovery names.
async fn claims(here: &Here, token: &str, audience: &str, kind: &str) -> anyhow::Result<Value> {
    let about: Value = here
        .get("/_sandbox/oidc/.well-known/openid-configuration")
        .await?
        .json()
        .await?;
    ensure!(about["issuer"] == here.at("/_sandbox/oidc"), "{about}");
    let keys = about["jwks_uri"].as_str().context("no key set")?;
    let keys: JwkSet = here.http.get(keys).send().await?.json().await?;
    let header = jsonwebtoken::decode_header(token)?;
    ensure!(
        header.typ.as_deref() == Some(kind) && header.alg == Algorithm::RS256,
        "{header:?}"
    );
    let key = keys
        .find(header.kid.as_deref().context("no kid")?)
        .context("unknown kid")?;
    let mut rules = Validation::new(Algorithm::RS256);
    rules.set_audience(&[audience]);
    rules.set_issuer(&[here.at("/_sandbox/oidc")]);
    Ok(jsonwebtoken::decode::<Value>(token, &DecodingKey::from_jwk(key)?, &rules)?.claims)
}

#[tokio::test]
async fn a_person_signs_in_with_a_code_and_gets_both_tokens() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let page = here.http.get(Url::parse_with_params(
        &here.at("/_sandbox/oidc/authorize"),
        ask(&here),
    )?);
    let page = page.send().await?;
    assert_eq!(page.status(), 200);
    let html = page.text().await?;
    for expected in [
        "<html lang=\"en\">",
        "value=\"lakeside-admin\"",
        "value=\"hilltop-parent2\"",
        "value=\"operator\"",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    let code = sign_in(&here, "lakeside-admin").await?;
    let (status, tokens) = redeem(&here, &code, VERIFIER).await?;
    assert_eq!((status, &tokens["token_type"]), (200, &json!("Bearer")));
    let access = tokens["access_token"].as_str().context("no token")?;
    let claims_of = claims(&here, access, "https://api.toshi.test", "at+jwt").await?;
    for (claim, value) in [
        ("sub", "lakeside-admin"),
        ("tenant", "lakeside"),
        ("client_id", "toshi-web"),
        ("scope", "openid toshi"),
    ] {
        assert_eq!(claims_of[claim], value);
    }
    let id = tokens["id_token"].as_str().context("no id token")?;
    let id = claims(&here, id, "toshi-web", "JWT").await?;
    assert_eq!(
        (&id["nonce"], &id["sub"]),
        (&json!("n-1"), &json!("lakeside-admin"))
    );
    Ok(())
}

#[tokio::test]
async fn a_code_works_once_and_only_with_its_verifier() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let code = sign_in(&here, "lakeside-admin").await?;
    let (status, error) = redeem(&here, &code, "another-verifier").await?;
    assert_eq!((status, &error["error"]), (400, &json!("invalid_grant")));
    assert_eq!(
        redeem(&here, &code, VERIFIER).await?.0,
        400,
        "spent by the wrong try"
    );

    let code = sign_in(&here, "lakeside-admin").await?;
    let (_, tokens) = redeem(&here, &code, VERIFIER).await?;
    assert_eq!(redeem(&here, &code, VERIFIER).await?.0, 400);
    assert_eq!(
        refresh(&here, &tokens["refresh_token"]).await?.0,
        400,
        "its sign-in has ended"
    );
    Ok(())
}

#[tokio::test]
async fn refresh_tokens_rotate_survive_a_restart_and_die_together_when_replayed()
-> anyhow::Result<()> {
    let here = Here::start().await?;
    let code = sign_in(&here, "hilltop-teacher").await?;
    let (_, first) = redeem(&here, &code, VERIFIER).await?;
    let here = here.restart().await?;
    let (status, second) = refresh(&here, &first["refresh_token"]).await?;
    assert_eq!(status, 200);
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    let access = second["access_token"].as_str().context("no token")?;
    let claims = claims(&here, access, "https://api.toshi.test", "at+jwt").await?;
    assert_eq!(claims["sub"], "hilltop-teacher");
    assert_eq!(refresh(&here, &first["refresh_token"]).await?.0, 400);
    assert_eq!(refresh(&here, &second["refresh_token"]).await?.0, 400);
    Ok(())
}

#[tokio::test]
async fn a_wrong_request_goes_back_with_its_reason_or_nowhere() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let changed = |name: &str, value: &str| {
        let mut pairs = ask(&here);
        pairs.retain(|(key, _)| *key != name);
        if let Some(key) = ask(&here)
            .iter()
            .map(|(key, _)| *key)
            .find(|key| *key == name)
        {
            pairs.push((key, value.to_owned()));
        }
        Url::parse_with_params(&here.at("/_sandbox/oidc/authorize"), pairs)
    };
    for (name, value, error) in [
        ("response_type", "token", "unsupported_response_type"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("scope", "openid everything", "invalid_scope"),
    ] {
        let response = here.http.get(changed(name, value)?).send().await?;
        let answer = sent_back(&here, &response)?;
        assert_eq!(
            (answer["error"].as_str(), answer["state"].as_str()),
            (error, "s-1"),
            "{name}"
        );
    }
    let port = here.sandbox.address().port();
    for (name, value) in [
        ("client_id", "other".to_owned()),
        ("redirect_uri", "https://evil.example/callback".to_owned()),
        (
            "redirect_uri",
            format!("http://127.0.0.1:{port}/callback/x"),
        ),
        (
            "redirect_uri",
            format!("http://127.0.0.1:{port}@evil.example/callback"),
        ),
    ] {
        let response = here.http.get(changed(name, &value)?).send().await?;
        assert_eq!(response.status(), 400, "{value}");
        assert!(!response.headers().contains_key("location"));
    }
    let local = format!("http://localhost:{port}/callback");
    let response = here
        .http
        .get(changed("redirect_uri", &local)?)
        .send()
        .await?;
    assert_eq!(response.status(), 200);
    Ok(())
}

#[tokio::test]
async fn signing_out_ends_the_sign_in_and_returns_to_the_page_only() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let code = sign_in(&here, "lakeside-admin").await?;
    let (_, tokens) = redeem(&here, &code, VERIFIER).await?;
    let leave = |to: &str| {
        let hint = tokens["id_token"].as_str().unwrap_or_default();
        let pairs = [("id_token_hint", hint), ("post_logout_redirect_uri", to)];
        Url::parse_with_params(&here.at("/_sandbox/oidc/logout"), pairs)
    };
    let elsewhere = here
        .http
        .get(leave("https://evil.example/")?)
        .send()
        .await?;
    assert_eq!(elsewhere.status(), 200);
    let home = here.http.get(leave(&here.at("/"))?).send().await?;
    assert_eq!(
        (home.status().as_u16(), home.headers()["location"].to_str()?),
        (303, here.at("/").as_str())
    );
    assert_eq!(refresh(&here, &tokens["refresh_token"]).await?.0, 400);
    Ok(())
}

#[tokio::test]
async fn tests_get_tokens_of_any_person_audience_and_age() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let token = |wanted: Value| async {
        anyhow::Ok(
            here.post("/_sandbox/token", wanted)
                .await?
                .error_for_status()?
                .text()
                .await?,
        )
    };
    let api = "https://api.toshi.test";
    let admin = token(json!({"tenant": "lakeside", "as": "admin"})).await?;
    assert_eq!(
        claims(&here, &admin, api, "at+jwt").await?["sub"],
        "lakeside-admin"
    );
    let operator = token(json!({"as": "operator"})).await?;
    let operator = claims(&here, &operator, api, "at+jwt").await?;
    assert_eq!(
        (&operator["sub"], operator.get("tenant")),
        (&json!("operator"), None)
    );
    let expired = token(json!({"tenant": "lakeside", "as": "admin", "ttl": -3600})).await?;
    let error = claims(&here, &expired, api, "at+jwt")
        .await
        .err()
        .context("still valid")?;
    assert!(
        format!("{error:?}").contains("ExpiredSignature"),
        "{error:?}"
    );
    let other =
        token(json!({"tenant": "lakeside", "as": "admin", "audience": "https://x"})).await?;
    assert!(claims(&here, &other, api, "at+jwt").await.is_err());
    assert!(claims(&here, &other, "https://x", "at+jwt").await.is_ok());
    for wrong in [
        json!({"tenant": "lakeside", "as": "king"}),
        json!({"as": "admin"}),
        json!({"who": 1}),
    ] {
        let refused = problem(here.post("/_sandbox/token", wrong).await?).await?;
        assert_eq!(refused, (400, "bad_request".to_owned()));
    }
    Ok(())
}
