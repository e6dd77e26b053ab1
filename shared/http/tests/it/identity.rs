use axum::http::HeaderMap;
use serde_json::{Value, json};
use toshi_core::{Millis, Role, TenantId};
use toshi_http::{Code, Identity, Signed, start};
use toshi_store::{IdentityRow, PersonStatus, TenantRow, UserRow};
use toshi_test_support::{AUDIENCE, Issuer, Stage, now};

struct Scene {
    stage: Stage,
    issuer: Issuer,
    identity: Identity,
    lakeside: TenantId,
}

impl Scene {
    /// Two schools; `ann` is an admin of one.
    async fn new() -> Self {
        Self::with(Issuer::start().await).await
    }

    async fn with(issuer: Issuer) -> Self {
        let stage = Stage::new().await;
        let lakeside = stage.school("lakeside", &issuer.url, AUDIENCE).await;
        stage.school("hilltop", &issuer.url, AUDIENCE).await;
        stage
            .person(&lakeside, &issuer.url, "ann", Role::Admin)
            .await;
        let identity = identity(&stage);
        Self {
            stage,
            issuer,
            identity,
            lakeside,
        }
    }

    fn claims(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = self.issuer.claims("ann");
        change(&mut claims);
        self.issuer.sign(&claims)
    }

    async fn code(&self, token: &str) -> Code {
        self.code_at(token, now()).await
    }

    async fn code_at(&self, token: &str, now: Millis) -> Code {
        match self.identity.person(&headers(token), now).await {
            Ok(person) => panic!("{person:?} came in"),
            Err(problem) => problem.code(),
        }
    }
}

fn identity(stage: &Stage) -> Identity {
    Identity::new(stage.store.clone(), start::http_client(true).unwrap(), true)
}

fn headers(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers
}

fn encoded(value: &Value) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn a_good_token_finds_its_person_in_their_school() {
    let scene = Scene::new().await;
    let token = scene.issuer.token("ann");
    let person = scene
        .identity
        .person(&headers(&token), now())
        .await
        .unwrap();
    assert_eq!(person.tenant, scene.lakeside);
    assert_eq!(person.user.as_str(), "ann");
    assert_eq!(person.role, Role::Admin);
    // The claim may name the person's own school, and the audience may be one of several.
    let named = scene.claims(|claims| {
        claims["tenant"] = json!("lakeside");
        claims["aud"] = json!(["other", AUDIENCE]);
    });
    assert!(scene.identity.person(&headers(&named), now()).await.is_ok());
}

#[tokio::test]
async fn a_token_signed_with_rsa_is_good_too() {
    let scene = Scene::with(Issuer::start_rsa().await).await;
    let token = scene.issuer.token("ann");
    assert!(scene.identity.person(&headers(&token), now()).await.is_ok());
}

#[tokio::test]
async fn a_forged_token_does_not_come_in() {
    let scene = Scene::new().await;
    let claims = scene.issuer.claims("ann");
    let kid = scene.issuer.kid();
    let good = scene.issuer.token("ann");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();

    let none = json!({ "alg": "none", "kid": kid });
    let unsigned = format!("{}.{}.", encoded(&none), encoded(&claims));
    let with_signature = format!("{}.{}.{signature}", encoded(&none), encoded(&claims));
    let symmetric = {
        let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
        header.kid = Some(kid.clone());
        let key = jsonwebtoken::EncodingKey::from_secret(kid.as_bytes()).unwrap();
        jsonwebtoken::encode(&header, &claims, &key).unwrap()
    };
    let other_algorithm = {
        let header = json!({ "alg": "RS256", "kid": kid });
        format!("{}.{}.{signature}", encoded(&header), encoded(&claims))
    };
    let mut promoted = claims.clone();
    promoted["role"] = json!("operator");
    let altered = format!("{header}.{}.{signature}", encoded(&promoted));
    // Another issuer's key, with our issuer's name.
    let foreign = Issuer::start().await.sign(&claims);

    for (what, token) in [
        ("no algorithm", unsigned),
        ("no algorithm, a signature", with_signature),
        ("a shared secret", symmetric),
        ("another algorithm", other_algorithm),
        ("altered claims", altered),
        ("another's key", foreign),
        ("no token at all", "nonsense".to_owned()),
    ] {
        assert_eq!(scene.code(&token).await, Code::TokenInvalid, "{what}");
    }
}

#[tokio::test]
async fn a_token_out_of_its_time_or_for_another_service_does_not_come_in() {
    let scene = Scene::new().await;
    let second = now().as_epoch_seconds();
    let expired = scene.claims(|claims| claims["exp"] = json!(second - 40));
    assert_eq!(scene.code(&expired).await, Code::TokenExpired);
    let just_expired = scene.claims(|claims| claims["exp"] = json!(second - 10));
    assert!(
        scene
            .identity
            .person(&headers(&just_expired), now())
            .await
            .is_ok(),
        "the clocks may be a little apart"
    );
    let early = scene.claims(|claims| claims["nbf"] = json!(second + 3600));
    assert_eq!(scene.code(&early).await, Code::TokenInvalid);
    let elsewhere = scene.claims(|claims| claims["aud"] = json!("https://another.test"));
    assert_eq!(scene.code(&elsewhere).await, Code::WrongAudience);
    let nowhere = scene.claims(|claims| claims["aud"] = json!([]));
    assert_eq!(scene.code(&nowhere).await, Code::WrongAudience);
    let endless = scene.claims(|claims| {
        claims.as_object_mut().unwrap().remove("exp");
    });
    assert_eq!(scene.code(&endless).await, Code::TokenInvalid);
}

#[tokio::test]
async fn a_claim_does_not_open_another_school() {
    let scene = Scene::new().await;
    let foreign = scene.claims(|claims| claims["tenant"] = json!("hilltop"));
    assert_eq!(scene.code(&foreign).await, Code::WrongTenant);
}

#[tokio::test]
async fn strangers_and_those_who_left_do_not_come_in() {
    let scene = Scene::new().await;
    assert_eq!(
        scene.code(&scene.issuer.token("bob")).await,
        Code::UnknownPerson
    );
    let stranger = Issuer::start().await;
    assert_eq!(
        scene.code(&stranger.token("ann")).await,
        Code::TokenInvalid,
        "an issuer that nobody listed"
    );
    assert_eq!(stranger.fetches(), 0, "nothing is fetched from it");

    // Read on every request: it counts at once, also for a token that has just been good.
    let token = scene.issuer.token("ann");
    assert!(scene.identity.person(&headers(&token), now()).await.is_ok());
    let row = UserRow {
        user: "ann".parse().unwrap(),
        name: "The admin".to_owned(),
        role: Role::Admin,
        status: PersonStatus::Inactive,
    };
    let school = scene.stage.store.school(&scene.lakeside);
    school.put_user(&row).await.unwrap();
    assert_eq!(scene.code(&token).await, Code::PersonInactive);
}

#[tokio::test]
async fn a_token_that_anybody_can_write_tells_nobody_who_exists() {
    let scene = Scene::new().await;
    scene
        .stage
        .person(&scene.lakeside, &scene.issuer.url, "two", Role::Teacher)
        .await;
    let hilltop = TenantId::from_stored("hilltop").unwrap();
    scene
        .stage
        .person(&hilltop, &scene.issuer.url, "two", Role::Teacher)
        .await;
    let forger = Issuer::start().await;
    for (subject, claim) in [
        ("ann", None),
        ("ann", Some("hilltop")),
        ("ann", Some("no-school")),
        ("bob", None),
        ("bob", Some("lakeside")),
        ("two", None),
        ("two", Some("no-school")),
    ] {
        let mut claims = scene.issuer.claims(subject);
        if let Some(claim) = claim {
            claims["tenant"] = json!(claim);
        }
        let token = forger.sign_as(&scene.issuer.kid(), &claims);
        let seen = scene.code(&token).await;
        assert_eq!(seen, Code::TokenInvalid, "{subject} {claim:?}");
    }
    let several = scene.issuer.token("two");
    assert_eq!(scene.code(&several).await, Code::WrongTenant, "once signed");
}

#[tokio::test]
async fn an_inactive_school_lets_nobody_in() {
    let scene = Scene::new().await;
    let row = scene
        .stage
        .store
        .tenant_row(&scene.lakeside)
        .await
        .unwrap()
        .unwrap();
    let row = TenantRow {
        active: false,
        ..row
    };
    scene.stage.store.put_tenant(&row).await.unwrap();
    assert_eq!(
        scene.code(&scene.issuer.token("ann")).await,
        Code::TenantInactive
    );
}

#[tokio::test]
async fn an_operator_is_known_but_is_nobody_in_a_school() {
    let scene = Scene::new().await;
    let user = "operator".parse().unwrap();
    let row = UserRow {
        user,
        name: "Platform operator".to_owned(),
        role: Role::Operator,
        status: PersonStatus::Active,
    };
    let store = &scene.stage.store;
    store.put_operator(&row).await.unwrap();
    let identity = IdentityRow {
        tenant: None,
        user: row.user.clone(),
    };
    store
        .put_identity(&scene.issuer.url, "operator", &identity)
        .await
        .unwrap();
    let token = scene.issuer.token("operator");
    assert_eq!(scene.code(&token).await, Code::NotForOperators);
    let signed = scene
        .identity
        .signed(&headers(&token), now())
        .await
        .unwrap();
    let Signed::Operator(operator) = signed else {
        panic!("{signed:?}");
    };
    assert_eq!(scene.identity.operator(&operator).await.unwrap(), row);
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it_and_not_more_often() {
    let scene = Scene::new().await;
    let start = now();
    let token = scene.issuer.token("ann");
    let old = headers(&token);
    scene.identity.person(&old, start).await.unwrap();
    scene.identity.person(&old, start).await.unwrap();
    assert_eq!(scene.issuer.fetches(), 1, "kept");

    scene.issuer.rotate();
    let rotated = scene.issuer.token("ann");
    // At once, an unknown key id is refused without asking: forged ones must not make us ask.
    assert_eq!(scene.code_at(&rotated, start).await, Code::TokenInvalid);
    assert_eq!(scene.issuer.fetches(), 1);
    let later = start.plus(31_000);
    scene
        .identity
        .person(&headers(&rotated), later)
        .await
        .unwrap();
    assert_eq!(scene.issuer.fetches(), 2);
    // The old key is no longer published.
    assert_eq!(scene.code_at(&token, later).await, Code::TokenInvalid);
}

#[tokio::test]
async fn keys_come_from_the_issuers_own_origin() {
    let scene = Scene::new().await;
    let other = Issuer::start().await;
    scene.issuer.point_keys_at(&format!("{}/keys", other.url));
    let token = scene.issuer.token("ann");
    assert_eq!(scene.code(&token).await, Code::Unavailable);
    assert_eq!(other.fetches(), 0);
}

#[tokio::test]
async fn outside_development_an_issuer_on_this_machine_is_not_asked() {
    let scene = Scene::new().await;
    let strict = Identity::new(
        scene.stage.store.clone(),
        start::http_client(true).unwrap(),
        false,
    );
    let token = scene.issuer.token("ann");
    let problem = strict.person(&headers(&token), now()).await.unwrap_err();
    assert_eq!(problem.code(), Code::Unavailable);
    assert_eq!(scene.issuer.fetches(), 0);
}
