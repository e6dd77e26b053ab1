//! The web console's static files, with the headers that a real host would send.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use crate::{App, page, problem::Problem};

const SECURITY: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

pub(super) async fn serve(
    State(app): State<Arc<App>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if method != Method::GET && method != Method::HEAD {
        let detail = "Here are only files to read.";
        return Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
            .into_response();
    }
    let path = uri.path();
    let is_page = !path.rsplit('/').next().unwrap_or_default().contains('.');
    if is_page && let Some(elsewhere) = canonical(&headers, &uri, app.port) {
        return (
            StatusCode::TEMPORARY_REDIRECT,
            [(header::LOCATION, elsewhere)],
        )
            .into_response();
    }
    let name = if is_page {
        Some("index.html")
    } else {
        safe(path)
    };
    let found = match name {
        Some(name) => read(&app.web, name).await,
        None => None,
    };
    let mut response = match found {
        Some((file, bytes)) => {
            let kind = content_type(&file);
            let caching = if path.starts_with("/assets/") {
                "public, max-age=31536000, immutable"
            } else {
                "no-cache"
            };
            (
                [
                    (header::CONTENT_TYPE, kind),
                    (header::CACHE_CONTROL, caching),
                ],
                Body::from(bytes),
            )
                .into_response()
        }
        None if is_page => {
            let main = "<p>The web console is not built yet. <code>make run</code> builds it.</p>";
            page::html(StatusCode::SERVICE_UNAVAILABLE, "Starting", main, "")
        }
        None => (StatusCode::NOT_FOUND, "not found").into_response(),
    };
    for (name, value) in SECURITY {
        if !(name == header::CONTENT_SECURITY_POLICY && response.headers().contains_key(&name)) {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

/// The same page at the address that the issuer and the page's configuration name.
///
/// A page opened at `localhost` would be of another origin than the issuer.
fn canonical(headers: &HeaderMap, uri: &Uri, port: u16) -> Option<HeaderValue> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    if host != format!("localhost:{port}") {
        return None;
    }
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    HeaderValue::from_str(&format!("http://127.0.0.1:{port}{target}")).ok()
}

/// A path of plain names below the web folder; anything that could lead out of it is refused.
fn safe(path: &str) -> Option<&str> {
    let relative = path.strip_prefix('/')?;
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    relative.split('/').all(plain).then_some(relative)
}

async fn read(folder: &Path, name: &str) -> Option<(PathBuf, Vec<u8>)> {
    let path = folder.join(name);
    let bytes = tokio::fs::read(&path).await.ok()?;
    Some((path, bytes))
}

fn content_type(path: &Path) -> &'static str {
    match path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
    {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_below_the_folder_are_served() {
        assert_eq!(safe("/assets/index-B1.js"), Some("assets/index-B1.js"));
        for path in [
            "/../secret.json",
            "/a/../b.js",
            "/%2e%2e/x.js",
            "//x.js",
            "/.env.txt",
            "x.js",
        ] {
            assert_eq!(safe(path), None, "{path}");
        }
    }
}
