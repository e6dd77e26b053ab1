//! Path and query parameters as problems when they do not fit.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::Problem;
use crate::misfit::sentence;

/// The id in the path. One that cannot be an id names nothing.
#[derive(Clone, Copy, Debug)]
pub struct IdPath<T>(pub T);

impl<T, S> FromRequestParts<S> for IdPath<T>
where
    T: FromStr,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::not_found())?;
        text.parse().map(Self).map_err(|_| Problem::not_found())
    }
}

/// The query parameters.
#[derive(Clone, Copy, Debug)]
pub struct Search<T>(pub T);

impl<T, S> FromRequestParts<S> for Search<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(wanted) =
            Query::<T>::from_request_parts(parts, state)
                .await
                .map_err(|error| {
                    let text = error.body_text();
                    let (_, message) = text.split_once(": ").unwrap_or_default();
                    Problem::bad_request(sentence("The query", "", message))
                })?;
        Ok(Self(wanted))
    }
}
