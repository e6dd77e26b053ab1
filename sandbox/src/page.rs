//! The sandbox's own plain pages: no script, one stylesheet.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}
body{max-width:46rem;margin:0 auto;padding:1.5rem 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin:1.5rem 0 .5rem}
fieldset{border:1px solid GrayText;border-radius:.5rem;margin:0 0 1rem;padding:.75rem 1rem}
legend{font-weight:600;padding:0 .4rem}
.people{display:flex;flex-wrap:wrap;gap:.5rem;list-style:none;margin:0;padding:0}
button{font:inherit;min-height:2.75rem;padding:.25rem .9rem;border-radius:.5rem;cursor:pointer}
:focus-visible{outline:3px solid Highlight;outline-offset:2px}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto}
dt{font-weight:600;margin-top:.5rem}dd{margin:0 0 0 1rem}
";

/// A page; `form_action` lists where its forms may lead besides here.
pub(crate) fn html(status: StatusCode, title: &str, main: &str, form_action: &str) -> Response {
    let title = escape(title);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · Toshi sandbox</title>\n\
         <link rel=\"stylesheet\" href=\"/_sandbox/style.css\">\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{main}\n</main>\n</body>\n</html>\n"
    );
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let policy = format!(
        "default-src 'none'; style-src 'self'; form-action 'self' {form_action}; \
         frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Without a referrer within the site, browsers send the form with the origin "null".
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Text made safe inside HTML, also in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
