//! The OpenAPI 3.1 document of all routes, whichever function serves them.
//!
//! It is for people, clients and fuzzers, and it is where the API's own body gets its paths from:
//! a route that is not here cannot be reached.

mod routes;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathItemBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi, Ref, RefOr, Required, Server};
use utoipa::{OpenApi as _, ToSchema};

use crate::{Code, wire};
use routes::{Answer, Parameter, Route, Takes};

const BEARER: &str = "bearer";

/// A problem as RFC 9457 has it, with our code.
#[derive(serde::Serialize, ToSchema)]
#[schema(as = Problem)]
struct ProblemBody {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    /// A sentence for a person.
    detail: String,
    code: Code,
    /// With `already_decided`: what was decided.
    #[schema(required = false)]
    decided: Option<wire::Decided>,
}

/// What a chat client posts. More may stand in it; only this is used.
#[derive(serde::Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ChatRequest {
    /// The conversation, made by the client.
    #[schema(min_length = 8, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    id: String,
    #[schema(required = false)]
    trigger: Option<ChatTrigger>,
    #[schema(required = false)]
    message_id: Option<String>,
    /// UI messages of the AI SDK; the last user message counts, and answered approvals.
    #[schema(value_type = Vec<Object>, min_items = 1)]
    messages: Vec<serde_json::Value>,
}

#[derive(serde::Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "documents what a client may send")]
enum ChatTrigger {
    SubmitMessage,
    RegenerateMessage,
}

#[derive(serde::Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DecisionRequest {
    decision: DecisionAnswer,
    #[schema(max_length = 500, required = false)]
    reason: Option<String>,
}

#[derive(serde::Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "documents what a client may send")]
enum DecisionAnswer {
    Approve,
    Reject,
}

#[derive(serde::Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResolveRequest {
    outcome: ResolveOutcome,
    #[schema(min_length = 1, max_length = 500, pattern = r"\S")]
    reason: String,
}

#[derive(serde::Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "documents what a client may send")]
enum ResolveOutcome {
    Done,
    NotDone,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Toshi",
        version = "1",
        description = "An assistant for schools that acts only after a person's yes."
    ),
    components(schemas(
        wire::Approval,
        wire::AuditRecord,
        wire::ConversationSummary,
        wire::Health,
        wire::LlmHealth,
        wire::Me,
        wire::Messages,
        wire::Page<wire::Approval>,
        wire::Page<wire::AuditRecord>,
        wire::Page<wire::ConversationSummary>,
        wire::Verification,
        ChatRequest,
        DecisionRequest,
        ResolveRequest,
        ProblemBody,
    ))
)]
struct Schemas;

/// The document as it is kept in the repository, which a test holds against [`document`]: functions
/// serve this text and do not carry its generator.
pub const KEPT: &str = include_str!("../../../../infra/openapi.json");

/// The whole document.
pub fn document() -> OpenApi {
    let mut document = Schemas::openapi();
    // The build's own metadata would change the document without a change of the interface.
    document.info.license = None;
    document.info.contact = None;
    document.servers = Some(vec![Server::new("/v1")]);
    if let Some(components) = &mut document.components {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("JWT")
            .description(Some(
                "An OIDC access token of an issuer that the school has listed.",
            ))
            .build();
        components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    }
    for route in routes::all() {
        let item = document.paths.paths.remove(route.path).unwrap_or_default();
        let item = PathItemBuilder::from(item)
            .operation(route.method.clone(), operation(&route))
            .build();
        document.paths.paths.insert(route.path.to_owned(), item);
    }
    document
}

/// The document as the repository keeps it.
pub fn text() -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&document()).map(|text| text + "\n")
}

fn operation(route: &Route) -> OperationBuilder {
    let mut operation = OperationBuilder::new()
        .tag(route.tag)
        .operation_id(Some(route.id))
        .summary(Some(route.summary));
    if route.path.contains("{id}") {
        operation = operation.parameter(
            ParameterBuilder::new()
                .name("id")
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(taken(route.takes))),
        );
    }
    for Parameter(name, meaning, takes) in route.query {
        operation = operation.parameter(
            ParameterBuilder::new()
                .name(*name)
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .description(Some(*meaning))
                .schema(Some(taken(*takes))),
        );
    }
    if let Some(body) = route.body {
        operation = operation.request_body(Some(
            RequestBodyBuilder::new()
                .required(Some(Required::True))
                .content("application/json", schema(body))
                .build(),
        ));
    }
    let success = ResponseBuilder::new().description(route.means);
    let success = match route.answer {
        Answer::Json(name) => success.content("application/json", schema(name)),
        Answer::Document => success.content(
            "application/json",
            ContentBuilder::new()
                .schema(Some(ObjectBuilder::new()))
                .build(),
        ),
        Answer::Stream => success.content(
            "text/event-stream",
            // Events: their data is what the SDK's documentation says, and no schema of ours.
            ContentBuilder::new().build(),
        ),
        Answer::Nothing => success,
    };
    operation = operation.response(route.status, success);
    if matches!(route.answer, Answer::Stream) && route.method == utoipa::openapi::HttpMethod::Get {
        let nothing = ResponseBuilder::new().description("Nothing is running here.");
        operation = operation.response("204", nothing);
    }
    let mut codes: Vec<Code> = route.codes.to_vec();
    if route.open {
        operation = operation.securities(Some([SecurityRequirement::default()]));
    } else {
        codes.extend(routes::SIGNED_IN);
        operation = operation.security(SecurityRequirement::new(BEARER, Vec::<String>::new()));
    }
    codes.extend(routes::ALWAYS);
    with_problems(operation, &codes)
}

/// One response a status, which names the codes that come with it.
fn with_problems(mut operation: OperationBuilder, codes: &[Code]) -> OperationBuilder {
    let mut statuses: Vec<u16> = codes.iter().map(|code| code.status().as_u16()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        let names: Vec<String> = Code::ALL
            .into_iter()
            .filter(|code| codes.contains(code) && code.status().as_u16() == status)
            .map(|code| format!("`{}`", code.as_str()))
            .collect();
        let response = ResponseBuilder::new()
            .description(names.join(", "))
            .content("application/problem+json", schema("Problem"));
        operation = operation.response(status.to_string(), response);
    }
    operation
}

fn schema(name: &str) -> utoipa::openapi::Content {
    ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(name)))
        .build()
}

fn taken(takes: Takes) -> RefOr<Schema> {
    let of = |kind| ObjectBuilder::new().schema_type(SchemaType::Type(kind));
    let text = of(Type::String);
    RefOr::T(Schema::Object(match takes {
        Takes::State => return Ref::from_schema_name("ApprovalState").into(),
        Takes::Text => text.build(),
        Takes::Flag => of(Type::Boolean).build(),
        Takes::Limit => of(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(100))
            .build(),
        Takes::Id => text.pattern(Some("^[0-7][0-9A-HJKMNP-TV-Z]{25}$")).build(),
        Takes::ClientId => text
            .pattern(Some("^[A-Za-z0-9_-]+$"))
            .min_length(Some(8))
            .max_length(Some(64))
            .build(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> serde_json::Value {
        serde_json::to_value(document()).unwrap()
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = value();
        let text = document.to_string();
        let names: Vec<&str> = text
            .split("\"#/components/schemas/")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert!(names.len() > 20, "{}", names.len());
        for name in names {
            let schema = &document["components"]["schemas"][name];
            assert!(schema.is_object(), "{name} is not described");
        }
    }

    #[test]
    fn every_route_names_its_problems_and_whether_it_needs_a_token() {
        let document = value();
        assert_eq!(document["openapi"], "3.1.0");
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let is_open = path == "/health" || path == "/openapi.json";
                let security = operation["security"].to_string();
                assert_eq!(security.contains(BEARER), !is_open, "{method} {path}");
                assert!(operation["responses"]["500"].is_object(), "{method} {path}");
                let signed_in = operation["responses"]["401"].is_object();
                assert_eq!(signed_in, !is_open, "{method} {path}");
            }
        }
    }

    #[test]
    fn the_kept_document_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/openapi.json");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == text().unwrap(),
            "infra/openapi.json is not what the code says; run `make openapi`"
        );
    }
}
