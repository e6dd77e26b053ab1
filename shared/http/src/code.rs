//! The codes of problems: one enum, listed in the OpenAPI document. Clients act on them.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    BadRequest,
    MalformedJson,
    TokenMissing,
    TokenInvalid,
    TokenExpired,
    WrongAudience,
    UnknownPerson,
    WrongTenant,
    TenantInactive,
    PersonInactive,
    NotForOperators,
    NotAllowed,
    NotYours,
    NotFound,
    UnknownConversation,
    MethodNotAllowed,
    AlreadyDecided,
    NoLongerOpen,
    TurnInProgress,
    TooManyOpen,
    Expired,
    TooLarge,
    UnsupportedMediaType,
    InvalidArguments,
    RateLimited,
    Internal,
    Unavailable,
}

impl Code {
    pub const ALL: [Self; 27] = [
        Self::BadRequest,
        Self::MalformedJson,
        Self::TokenMissing,
        Self::TokenInvalid,
        Self::TokenExpired,
        Self::WrongAudience,
        Self::UnknownPerson,
        Self::WrongTenant,
        Self::TenantInactive,
        Self::PersonInactive,
        Self::NotForOperators,
        Self::NotAllowed,
        Self::NotYours,
        Self::NotFound,
        Self::UnknownConversation,
        Self::MethodNotAllowed,
        Self::AlreadyDecided,
        Self::NoLongerOpen,
        Self::TurnInProgress,
        Self::TooManyOpen,
        Self::Expired,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::InvalidArguments,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    pub const fn as_str(self) -> &'static str {
        self.parts().0
    }

    pub const fn status(self) -> StatusCode {
        self.parts().1
    }

    pub const fn title(self) -> &'static str {
        self.parts().2
    }

    /// What a person reads when the place of the problem has nothing better to say.
    pub const fn sentence(self) -> &'static str {
        self.parts().3
    }

    const fn parts(self) -> (&'static str, StatusCode, &'static str, &'static str) {
        match self {
            Self::BadRequest => (
                "bad_request",
                StatusCode::BAD_REQUEST,
                "Bad request",
                "The request could not be understood.",
            ),
            Self::MalformedJson => (
                "malformed_json",
                StatusCode::BAD_REQUEST,
                "Malformed JSON",
                "The request body is not well-formed JSON.",
            ),
            Self::TokenMissing => (
                "token_missing",
                StatusCode::UNAUTHORIZED,
                "Not signed in",
                "Sign in first: the request carries no bearer token.",
            ),
            Self::TokenInvalid => (
                "token_invalid",
                StatusCode::UNAUTHORIZED,
                "Not signed in",
                "The sign-in could not be verified. Sign in again.",
            ),
            Self::TokenExpired => (
                "token_expired",
                StatusCode::UNAUTHORIZED,
                "Signed out",
                "The sign-in has ended. Sign in again to go on.",
            ),
            Self::WrongAudience => (
                "wrong_audience",
                StatusCode::UNAUTHORIZED,
                "Wrong audience",
                "This sign-in is for another service. Sign in to Toshi.",
            ),
            Self::UnknownPerson => (
                "unknown_person",
                StatusCode::UNAUTHORIZED,
                "Unknown person",
                "This account is not known to Toshi. Ask your school's administrator to add it.",
            ),
            Self::WrongTenant => (
                "wrong_tenant",
                StatusCode::FORBIDDEN,
                "Wrong school",
                "The sign-in names a school that this person does not belong to.",
            ),
            Self::TenantInactive => (
                "tenant_inactive",
                StatusCode::FORBIDDEN,
                "School not active",
                "This school's access to Toshi is switched off at the moment.",
            ),
            Self::PersonInactive => (
                "person_inactive",
                StatusCode::FORBIDDEN,
                "Account not active",
                "This account is switched off. Ask your school's administrator.",
            ),
            Self::NotForOperators => (
                "not_for_operators",
                StatusCode::FORBIDDEN,
                "Not for operators",
                "Platform operators belong to no school and cannot use this.",
            ),
            Self::NotAllowed => (
                "not_allowed",
                StatusCode::FORBIDDEN,
                "Not allowed",
                "Your role in the school does not include this.",
            ),
            Self::NotYours => (
                "not_yours",
                StatusCode::FORBIDDEN,
                "Not yours",
                "This request is for somebody else to answer.",
            ),
            Self::NotFound => (
                "not_found",
                StatusCode::NOT_FOUND,
                "Not found",
                "This does not exist, or it is not yours to see.",
            ),
            Self::UnknownConversation => (
                "unknown_conversation",
                StatusCode::NOT_FOUND,
                "Unknown conversation",
                "There is no such conversation.",
            ),
            Self::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "Method not allowed",
                "This address cannot be used in this way.",
            ),
            Self::AlreadyDecided => (
                "already_decided",
                StatusCode::CONFLICT,
                "Already decided",
                "This was already answered.",
            ),
            Self::NoLongerOpen => (
                "no_longer_open",
                StatusCode::CONFLICT,
                "No longer open",
                "This can no longer be answered.",
            ),
            Self::TurnInProgress => (
                "turn_in_progress",
                StatusCode::CONFLICT,
                "Still answering",
                "Toshi is still answering. Wait for the answer and try again.",
            ),
            Self::TooManyOpen => (
                "too_many_open",
                StatusCode::CONFLICT,
                "Too many open",
                "Too much is waiting in this conversation. Answer what is open first.",
            ),
            Self::Expired => (
                "expired",
                StatusCode::GONE,
                "Expired",
                "The time to answer is over. Nothing was done.",
            ),
            Self::TooLarge => (
                "too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "Too large",
                "The request is larger than allowed.",
            ),
            Self::UnsupportedMediaType => (
                "unsupported_media_type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Not JSON",
                "Send the request body as application/json.",
            ),
            Self::InvalidArguments => (
                "invalid_arguments",
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid arguments",
                "Part of the request has a value that is not possible.",
            ),
            Self::RateLimited => (
                "rate_limited",
                StatusCode::TOO_MANY_REQUESTS,
                "Too much at once",
                "That was too much at once. Wait a moment and try again.",
            ),
            Self::Internal => (
                "internal",
                StatusCode::INTERNAL_SERVER_ERROR,
                "Problem on our side",
                "Toshi has a problem on its side.",
            ),
            Self::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                "Busy",
                "Toshi is busy. Try again in a moment.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_spelt_in_the_document_as_it_is_answered() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!(code.status().is_client_error() || code.status().is_server_error());
            assert!(code.sentence().ends_with('.'), "{code:?}");
        }
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
