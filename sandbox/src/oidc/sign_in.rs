//! The page on which a demo person is chosen, and signing out.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Form, Query, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::{CLIENT, Issuer, accounts, grants::Consent};
use crate::{
    App,
    page::{escape, html},
};

const LONGEST: usize = 512;

/// An authorization request, as the query of the page and as the hidden fields of its form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ask {
    client_id: String,
    redirect_uri: String,
    response_type: String,
    response_mode: Option<String>,
    scope: String,
    state: Option<String>,
    nonce: Option<String>,
    code_challenge: String,
    code_challenge_method: String,
    prompt: Option<String>,
    person: Option<String>,
}

/// Why the page is not shown.
enum Refusal {
    /// The client or its address is unknown, so nobody may be sent anywhere.
    Here(&'static str),
    /// Told to the client: an OAuth error code and its description.
    Back(&'static str, &'static str),
}

pub(super) async fn show(State(app): State<Arc<App>>, Query(ask): Query<Ask>) -> Response {
    match ask.check(&app.issuer) {
        Err(refusal) => refuse(&app.issuer, &ask, refusal),
        Ok(()) if ask.prompt.as_deref() == Some("none") => {
            let refusal = Refusal::Back("login_required", "somebody has to choose a person");
            refuse(&app.issuer, &ask, refusal)
        }
        Ok(()) => page(&app.issuer, &ask),
    }
}

pub(super) async fn choose(State(app): State<Arc<App>>, Form(ask): Form<Ask>) -> Response {
    if let Err(refusal) = ask.check(&app.issuer) {
        return refuse(&app.issuer, &ask, refusal);
    }
    let Some(account) = ask.person.as_deref().and_then(accounts::by_subject) else {
        return refuse(
            &app.issuer,
            &ask,
            Refusal::Back("access_denied", "nobody was chosen"),
        );
    };
    let code = app.issuer.grants.code(Consent {
        subject: account.subject,
        redirect_uri: ask.redirect_uri.clone(),
        challenge: ask.code_challenge.clone(),
        scope: ask.scope.clone(),
        nonce: ask.nonce.clone(),
    });
    back(&app.issuer, &ask, &[("code", &code)])
}

impl Ask {
    fn check(&self, issuer: &Issuer) -> Result<(), Refusal> {
        if self.client_id != CLIENT {
            return Err(Refusal::Here("This application is not known here."));
        }
        if issuer.own_path(&self.redirect_uri) != Some("/callback") {
            return Err(Refusal::Here(
                "The address to return to does not belong to the application.",
            ));
        }
        let texts = [
            self.state.as_deref(),
            self.nonce.as_deref(),
            Some(self.scope.as_str()),
        ];
        if texts.into_iter().flatten().any(|text| text.len() > LONGEST) {
            return Err(Refusal::Here("The request is too long."));
        }
        if self.response_type != "code" {
            return Err(Refusal::Back(
                "unsupported_response_type",
                "only code is supported",
            ));
        }
        if !matches!(self.response_mode.as_deref(), None | Some("query")) {
            return Err(Refusal::Back(
                "invalid_request",
                "only the response mode query is supported",
            ));
        }
        if self.code_challenge_method != "S256" || self.code_challenge.len() != 43 {
            return Err(Refusal::Back(
                "invalid_request",
                "PKCE with S256 is required",
            ));
        }
        if self
            .scope
            .split(' ')
            .any(|scope| !matches!(scope, "openid" | "toshi"))
        {
            return Err(Refusal::Back("invalid_scope", "known scopes: openid toshi"));
        }
        Ok(())
    }
}

fn refuse(issuer: &Issuer, ask: &Ask, refusal: Refusal) -> Response {
    match refusal {
        Refusal::Here(sentence) => {
            let main = format!("<p>{sentence}</p>");
            html(StatusCode::BAD_REQUEST, "Cannot sign in", &main, "")
        }
        Refusal::Back(code, description) => back(
            issuer,
            ask,
            &[("error", code), ("error_description", description)],
        ),
    }
}

/// Sends the browser back to the application, whose address has been checked.
fn back(issuer: &Issuer, ask: &Ask, answer: &[(&str, &str)]) -> Response {
    let mut pairs = answer.to_vec();
    if let Some(state) = &ask.state {
        pairs.push(("state", state));
    }
    pairs.push(("iss", issuer.url()));
    redirect(&ask.redirect_uri, &pairs)
}

fn redirect(address: &str, pairs: &[(&str, &str)]) -> Response {
    let parsed = if pairs.is_empty() {
        reqwest::Url::parse(address)
    } else {
        reqwest::Url::parse_with_params(address, pairs)
    };
    let target = parsed
        .ok()
        .and_then(|url| HeaderValue::from_str(url.as_str()).ok());
    match target {
        Some(location) => {
            let headers = [
                (header::LOCATION, location),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

fn page(issuer: &Issuer, ask: &Ask) -> Response {
    let hidden: BTreeMap<&str, Option<&str>> = BTreeMap::from([
        ("client_id", Some(ask.client_id.as_str())),
        ("redirect_uri", Some(ask.redirect_uri.as_str())),
        ("response_type", Some(ask.response_type.as_str())),
        ("scope", Some(ask.scope.as_str())),
        ("state", ask.state.as_deref()),
        ("nonce", ask.nonce.as_deref()),
        ("code_challenge", Some(ask.code_challenge.as_str())),
        (
            "code_challenge_method",
            Some(ask.code_challenge_method.as_str()),
        ),
    ]);
    let mut main = String::from(
        "<p>These are demo people with made-up data. Choose who you want to be; \
         there is no password.</p>\n<form method=\"post\">\n",
    );
    for (name, value) in hidden {
        if let Some(value) = value {
            let value = escape(value);
            main.push_str(&format!(
                "<input type=\"hidden\" name=\"{name}\" value=\"{value}\">\n"
            ));
        }
    }
    for school in &accounts::SCHOOLS {
        main.push_str(&group(school.title, accounts::of_school(school)));
    }
    main.push_str(&group("Platform", [accounts::operator()].into_iter()));
    main.push_str("</form>");
    let pages = format!("http://127.0.0.1:{0} http://localhost:{0}", issuer.port);
    html(StatusCode::OK, "Sign in", &main, &pages)
}

fn group(legend: &str, people: impl Iterator<Item = accounts::Account>) -> String {
    let buttons: String = people
        .map(|account| {
            let (subject, name) = (escape(&account.subject), escape(&account.name));
            format!("<li><button name=\"person\" value=\"{subject}\">{name}</button></li>\n")
        })
        .collect();
    format!(
        "<fieldset>\n<legend>{}</legend>\n<ul class=\"people\">\n{buttons}</ul>\n</fieldset>\n",
        escape(legend)
    )
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Leave {
    id_token_hint: Option<String>,
    post_logout_redirect_uri: Option<String>,
    state: Option<String>,
}

pub(super) async fn out(State(app): State<Arc<App>>, Query(leave): Query<Leave>) -> Response {
    leave.run(&app.issuer)
}

pub(super) async fn out_by_form(State(app): State<Arc<App>>, Form(leave): Form<Leave>) -> Response {
    leave.run(&app.issuer)
}

impl Leave {
    fn run(&self, issuer: &Issuer) -> Response {
        let person = self
            .id_token_hint
            .as_deref()
            .and_then(|hint| issuer.person_of(hint));
        if let Some(subject) = person {
            issuer.grants.end(&subject);
        }
        match self.post_logout_redirect_uri.as_deref() {
            Some(address) if issuer.own_path(address).is_some() => {
                let state: Vec<_> = self
                    .state
                    .iter()
                    .map(|state| ("state", state.as_str()))
                    .collect();
                redirect(address, &state)
            }
            _ => html(
                StatusCode::OK,
                "Signed out",
                "<p>You are signed out. <a href=\"/\">Back to Toshi</a></p>",
                "",
            ),
        }
    }
}
