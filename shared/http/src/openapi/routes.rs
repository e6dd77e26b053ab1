//! The routes, one entry each.

use utoipa::openapi::HttpMethod;

use crate::Code;

/// A query parameter: its name, what it means, what it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Takes,
);

#[derive(Clone, Copy, Debug)]
pub(super) enum Takes {
    Text,
    Flag,
    /// How many of a list.
    Limit,
    /// An id of ours.
    Id,
    /// An id that a client made.
    ClientId,
    State,
}

/// What a success carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A schema's name.
    Json(&'static str),
    /// An OpenAPI document.
    Document,
    Stream,
    Nothing,
}

#[derive(Clone)]
pub(super) struct Route {
    pub(super) method: HttpMethod,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    /// What `{id}` takes, where the path has one.
    pub(super) takes: Takes,
    pub(super) query: &'static [Parameter],
    pub(super) body: Option<&'static str>,
    pub(super) status: &'static str,
    pub(super) means: &'static str,
    pub(super) answer: Answer,
    pub(super) codes: &'static [Code],
    /// Needs no token.
    pub(super) open: bool,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            method: HttpMethod::Get,
            path: "",
            id: "",
            tag: "",
            summary: "",
            takes: Takes::Text,
            query: &[],
            body: None,
            status: "200",
            means: "",
            answer: Answer::Nothing,
            codes: &[],
            open: false,
        }
    }
}

/// Any route may answer these.
pub(super) const ALWAYS: [Code; 2] = [Code::Internal, Code::Unavailable];

/// Any route that needs a token may answer these.
pub(super) const SIGNED_IN: [Code; 9] = [
    Code::TokenMissing,
    Code::TokenInvalid,
    Code::TokenExpired,
    Code::WrongAudience,
    Code::UnknownPerson,
    Code::WrongTenant,
    Code::TenantInactive,
    Code::PersonInactive,
    Code::NotForOperators,
];

const LIMIT: Parameter = Parameter("limit", "50 if it is left out.", Takes::Limit);
const CURSOR: Parameter = Parameter("cursor", "`next` of the part before.", Takes::Text);

pub(super) fn all() -> Vec<Route> {
    let mut routes = Vec::from(service());
    routes.extend(chat());
    routes.extend(approvals());
    routes.extend(audit());
    routes
}

fn service() -> [Route; 4] {
    let service = |path, id, summary| Route {
        path,
        id,
        summary,
        tag: "service",
        ..Route::default()
    };
    [
        Route {
            means: "The service answers.",
            answer: Answer::Json("Health"),
            open: true,
            ..service("/health", "health", "Whether the service answers")
        },
        Route {
            means: "The person who signed in.",
            answer: Answer::Json("Me"),
            ..service("/me", "me", "Who signed in, and what they may do")
        },
        Route {
            means: "This document.",
            answer: Answer::Document,
            open: true,
            ..service("/openapi.json", "openapi", "This document")
        },
        Route {
            means: "What the model answered.",
            answer: Answer::Json("LlmHealth"),
            codes: &[Code::NotAllowed],
            ..service("/llm/health", "llmHealth", "Whether the model answers")
        },
    ]
}

fn chat() -> [Route; 5] {
    let chat = |path, id, summary| Route {
        path,
        id,
        summary,
        tag: "chat",
        ..Route::default()
    };
    [
        Route {
            method: HttpMethod::Post,
            body: Some("ChatRequest"),
            means: "The answer, as a UI message stream of the AI SDK.",
            answer: Answer::Stream,
            codes: &[
                Code::BadRequest,
                Code::MalformedJson,
                Code::UnsupportedMediaType,
                Code::InvalidArguments,
                Code::TooLarge,
                Code::UnknownConversation,
                Code::TurnInProgress,
                Code::TooManyOpen,
                Code::RateLimited,
            ],
            ..chat("/chat", "chat", "Send a message, or answers to approvals")
        },
        Route {
            means: "The running answer from its start, then as it goes on.",
            answer: Answer::Stream,
            ..chat("/chat/{id}/stream", "followChat", "Follow a running answer")
        },
        Route {
            query: &[LIMIT, CURSOR],
            means: "Last used first.",
            answer: Answer::Json("Page_ConversationSummary"),
            codes: &[Code::BadRequest],
            ..chat("/conversations", "conversations", "One's own conversations")
        },
        Route {
            takes: Takes::ClientId,
            query: &[LIMIT, CURSOR],
            means: "Oldest first.",
            answer: Answer::Json("Messages"),
            codes: &[Code::BadRequest, Code::NotFound, Code::UnknownConversation],
            ..chat(
                "/conversations/{id}/messages",
                "messages",
                "A conversation's messages",
            )
        },
        Route {
            method: HttpMethod::Delete,
            takes: Takes::ClientId,
            status: "204",
            means: "Its contents are gone; the audit's records stay.",
            codes: &[
                Code::NotFound,
                Code::UnknownConversation,
                Code::TurnInProgress,
            ],
            ..chat(
                "/conversations/{id}",
                "deleteConversation",
                "Erase a conversation",
            )
        },
    ]
}

fn approvals() -> [Route; 4] {
    let approval = |path, id, summary| Route {
        path,
        id,
        summary,
        tag: "approvals",
        takes: Takes::Id,
        means: "The approval as it is now.",
        answer: Answer::Json("Approval"),
        ..Route::default()
    };
    [
        Route {
            query: &[
                Parameter("state", "Only approvals in this state.", Takes::State),
                Parameter(
                    "mine",
                    "`true`: only one's own, as for everybody who is not an admin.",
                    Takes::Flag,
                ),
                LIMIT,
                CURSOR,
            ],
            means: "Newest first; open ones of one's own by their limit, soonest first.",
            answer: Answer::Json("Page_Approval"),
            codes: &[Code::BadRequest],
            ..approval("/approvals", "approvals", "Approvals")
        },
        Route {
            codes: &[Code::NotYours, Code::NotFound],
            ..approval("/approvals/{id}", "approval", "One approval")
        },
        Route {
            method: HttpMethod::Post,
            body: Some("DecisionRequest"),
            means: "Stored; the same answer again is answered in the same way.",
            codes: &[
                Code::MalformedJson,
                Code::NotYours,
                Code::NotFound,
                Code::AlreadyDecided,
                Code::NoLongerOpen,
                Code::Expired,
                Code::TooLarge,
                Code::UnsupportedMediaType,
                Code::InvalidArguments,
            ],
            ..approval("/approvals/{id}/decision", "decide", "Approve or reject")
        },
        Route {
            method: HttpMethod::Post,
            body: Some("ResolveRequest"),
            means: "Stored; the same outcome again is answered in the same way.",
            codes: &[
                Code::MalformedJson,
                Code::NotYours,
                Code::NotFound,
                Code::AlreadyDecided,
                Code::NoLongerOpen,
                Code::TooLarge,
                Code::UnsupportedMediaType,
                Code::InvalidArguments,
            ],
            ..approval(
                "/approvals/{id}/resolve",
                "resolve",
                "Say what became of an unknown outcome",
            )
        },
    ]
}

fn audit() -> [Route; 2] {
    [
        Route {
            path: "/audit",
            id: "audit",
            tag: "audit",
            summary: "Audit records",
            query: &[
                Parameter(
                    "approval",
                    "Only this approval's chain, oldest first.",
                    Takes::Id,
                ),
                Parameter(
                    "conversation",
                    "Only records of this conversation.",
                    Takes::Text,
                ),
                LIMIT,
                CURSOR,
            ],
            means: "Newest first, unless one approval's are asked for.",
            answer: Answer::Json("Page_AuditRecord"),
            codes: &[
                Code::BadRequest,
                Code::NotAllowed,
                Code::NotYours,
                Code::NotFound,
            ],
            ..Route::default()
        },
        Route {
            path: "/audit/verify",
            id: "verifyAudit",
            tag: "audit",
            summary: "Check that audit records are whole",
            query: &[
                Parameter("approval", "Only this approval's chain.", Takes::Id),
                Parameter(
                    "cursor",
                    "`next` of the part before: the school is checked when there is none.",
                    Takes::Text,
                ),
            ],
            means: "The verdict on this part, and its first record that does not hold.",
            answer: Answer::Json("Verification"),
            codes: &[
                Code::BadRequest,
                Code::NotAllowed,
                Code::NotYours,
                Code::NotFound,
            ],
            ..Route::default()
        },
    ]
}
