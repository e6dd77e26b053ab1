//! Two schools, their people, and the routes.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use toshi_approvals::http::{App, routes};
use toshi_core::{Role, TenantId};
use toshi_http::{Identity, service, start};
use toshi_test_support::{AUDIENCE, Asked, Issuer, Question, Stage};
use tower::ServiceExt;

pub(crate) struct Desk {
    pub(crate) stage: Stage,
    pub(crate) lakeside: TenantId,
    pub(crate) hilltop: TenantId,
    issuer: Issuer,
    router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        self.body
    }

    /// The problem's whole body, which must have this status and code.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!(self.body["code"], code, "{}", self.body);
        assert_eq!(self.body["status"], status, "{}", self.body);
        let detail = self.body["detail"].as_str().unwrap();
        assert!(detail.ends_with('.'), "a sentence: {detail}");
        self.body
    }
}

impl Desk {
    /// lakeside: `ann` and `zoe` are admins, `tom` is a teacher. hilltop: `eve` is an admin.
    pub(crate) async fn open() -> Self {
        let stage = Stage::new().await;
        let issuer = Issuer::start().await;
        let lakeside = stage.school("lakeside", &issuer.url, AUDIENCE).await;
        let hilltop = stage.school("hilltop", &issuer.url, AUDIENCE).await;
        for (tenant, user, role) in [
            (&lakeside, "ann", Role::Admin),
            (&lakeside, "zoe", Role::Admin),
            (&lakeside, "tom", Role::Teacher),
            (&hilltop, "eve", Role::Admin),
        ] {
            stage.person(tenant, &issuer.url, user, role).await;
        }
        let app = App {
            identity: Identity::new(stage.store.clone(), start::http_client(true).unwrap(), true),
            store: stage.store.clone(),
            queue: stage.queue.clone(),
        };
        let router = service(routes(Arc::new(app)), None);
        Self {
            stage,
            lakeside,
            hilltop,
            issuer,
            router,
        }
    }

    pub(crate) async fn ask(&self, user: &str) -> Asked {
        self.stage.ask(&self.lakeside, &Question::of(user)).await
    }

    pub(crate) async fn get(&self, user: &str, path: &str) -> Answer {
        self.send("GET", Some(user), path, None, "").await
    }

    pub(crate) async fn post(&self, user: &str, path: &str, body: &Value) -> Answer {
        self.post_text(user, path, "application/json", &body.to_string())
            .await
    }

    pub(crate) async fn post_text(
        &self,
        user: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Answer {
        self.send("POST", Some(user), path, Some(content_type), body)
            .await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        user: Option<&str>,
        path: &str,
        content_type: Option<&str>,
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(user) = user {
            request = request.header(
                "authorization",
                format!("Bearer {}", self.issuer.token(user)),
            );
        }
        if let Some(kind) = content_type {
            request = request.header("content-type", kind);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let kind = parts.headers["content-type"].to_str().unwrap().to_owned();
        let wanted = if parts.status.is_success() {
            "application/json"
        } else {
            "application/problem+json"
        };
        assert_eq!(kind, wanted);
        assert!(parts.headers.contains_key("x-request-id"));
        Answer {
            status: parts.status,
            body: serde_json::from_slice(&bytes).unwrap(),
        }
    }

    /// Records of refused answers to this approval.
    pub(crate) async fn refusals(&self, asked: &Asked) -> Vec<Value> {
        let id = asked.approval.approval_id.to_string();
        let body = self.get("zoe", "/audit?limit=100").await.ok();
        let items = body["items"].as_array().unwrap().clone();
        items
            .into_iter()
            .filter(|record| record["event"] == "refused" && record["approval_id"] == *id)
            .collect()
    }
}

pub(crate) fn decision_path(asked: &Asked) -> String {
    format!("/approvals/{}/decision", asked.approval.approval_id)
}

pub(crate) fn resolve_path(asked: &Asked) -> String {
    format!("/approvals/{}/resolve", asked.approval.approval_id)
}

pub(crate) fn show_path(asked: &Asked) -> String {
    format!("/approvals/{}", asked.approval.approval_id)
}
