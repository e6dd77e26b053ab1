//! Who may talk to the stand-ins: this machine's programs and this address's own pages.
//!
//! They hand out tokens and change data without asking who is there, so a page of another site
//! must not reach them, neither directly (`Origin`) nor by a name that resolves here (`Host`).

use axum::http::{HeaderMap, StatusCode, header};

use crate::problem::Problem;

/// Refuses requests of other sites; `port` is the one this process listens on.
pub(crate) fn check(headers: &HeaderMap, port: u16) -> Result<(), Problem> {
    let refuse = |detail: &str| Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    let Some(host) = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
    else {
        return refuse("The Host header is missing.");
    };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if !matches!(name, "127.0.0.1" | "localhost") {
        return refuse("The sandbox answers to 127.0.0.1 and localhost only.");
    }
    match headers.get(header::ORIGIN).map(|value| value.to_str()) {
        None => Ok(()),
        Some(Ok(origin)) if is_own(origin, port) => Ok(()),
        Some(_) => refuse("The sandbox does not answer to pages of other sites."),
    }
}

fn is_own(origin: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|host| origin == format!("http://{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_this_machine_and_its_own_pages_pass() {
        let rows = [
            ("127.0.0.1:8080", None, true),
            ("localhost:8080", Some("http://localhost:8080"), true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080"), true),
            ("127.0.0.1:8080", Some("http://127.0.0.1:9090"), false),
            ("127.0.0.1:8080", Some("https://127.0.0.1:8080"), false),
            ("127.0.0.1:8080", Some("null"), false),
            ("evil.example:8080", None, false),
            ("evil.example", Some("http://127.0.0.1:8080"), false),
        ];
        for (host, origin, passes) in rows {
            let verdict = check(&headers(host, origin), 8080);
            assert_eq!(verdict.is_ok(), passes, "{host} {origin:?}");
        }
        assert!(check(&HeaderMap::new(), 8080).is_err());
    }
}
