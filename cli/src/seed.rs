//! `toshi seed`: the demo schools. What is there already keeps its settings.

use anyhow::{Context, bail};
use toshi_core::{Catalogue, Millis, Role, TenantId, UserId};
use toshi_http::start::{self, Environment};
use toshi_store::{IdentityRow, IssuerRow, PersonStatus, TenantRow, UserRow};

use crate::cloud::Cloud;
use crate::demo::Demo;
use crate::people::{AUDIENCE, OPERATOR, OPERATOR_NAME, PEOPLE, SCHOOLS};
use crate::say::say;
use crate::secret;

const HMAC: &str = "hmac";
/// The sandbox's issuer, below its address.
const ISSUER: &str = "/_sandbox/oidc";

pub(crate) async fn seed(environment: &Environment, front: &str) -> anyhow::Result<()> {
    if !environment.dev()? {
        bail!("demo data is only for development: TOSHI_DEV is not 1");
    }
    let front = front.trim_end_matches('/');
    let issuer = format!("{front}{ISSUER}");
    let catalogue = Catalogue::load(&environment.list("TOSHI_CONNECTORS"), true)?;
    let demo = Demo::new(front, catalogue)?;
    let cloud = Cloud::of(environment).await?;
    let now = start::now();

    let key = secret::random();
    let made = cloud
        .vault
        .set_platform_secret(&cloud.store, HMAC, &key, true)
        .await
        .context("storing the HMAC key")?;
    say(if made {
        "secret hmac: made"
    } else {
        "secret hmac: kept"
    });

    for (id, name) in SCHOOLS {
        let tenant = TenantId::from_stored(id)?;
        school(&cloud, &tenant, name, &issuer, now).await?;
        people(&cloud, &tenant, name, &issuer).await?;
        let tools = demo
            .connect(&cloud, &tenant, name, now)
            .await
            .with_context(|| format!("connecting the demo workspace of {name}"))?;
        say(&format!("{name}: {} people, {tools}", PEOPLE.len()));
    }
    operator(&cloud, &issuer).await?;
    say("platform: 1 operator");
    Ok(())
}

async fn school(
    cloud: &Cloud,
    tenant: &TenantId,
    name: &str,
    issuer: &str,
    now: Millis,
) -> anyhow::Result<()> {
    let accepted = IssuerRow {
        issuer: issuer.to_owned(),
        audience: AUDIENCE.to_owned(),
    };
    let row = match cloud.store.tenant_row(tenant).await? {
        Some(row) if row.issuers.contains(&accepted) => return Ok(()),
        // An earlier sandbox, at another port, is no longer believed.
        Some(mut row) => {
            row.issuers.retain(|known| !known.issuer.ends_with(ISSUER));
            row.issuers.push(accepted);
            row
        }
        None => TenantRow {
            tenant: tenant.clone(),
            name: name.to_owned(),
            active: true,
            issuers: vec![accepted],
            decide_within_ms: None,
            created_at: Some(now),
        },
    };
    Ok(cloud.store.put_tenant(&row).await?)
}

async fn people(
    cloud: &Cloud,
    tenant: &TenantId,
    school: &str,
    issuer: &str,
) -> anyhow::Result<()> {
    let rows = cloud.store.school(tenant);
    for (person, role, title) in PEOPLE {
        let subject = format!("{tenant}-{person}");
        let user: UserId = subject.parse()?;
        if rows.user(&user).await?.is_none() {
            let row = UserRow {
                user: user.clone(),
                name: format!("{school} {title}"),
                role,
                status: PersonStatus::Active,
            };
            rows.put_user(&row).await?;
        }
        let identity = IdentityRow {
            tenant: Some(tenant.clone()),
            user,
        };
        cloud
            .store
            .put_identity(issuer, &subject, &identity)
            .await?;
    }
    Ok(())
}

async fn operator(cloud: &Cloud, issuer: &str) -> anyhow::Result<()> {
    let user: UserId = OPERATOR.parse()?;
    if cloud.store.operator(&user).await?.is_none() {
        let row = UserRow {
            user: user.clone(),
            name: OPERATOR_NAME.to_owned(),
            role: Role::Operator,
            status: PersonStatus::Active,
        };
        cloud.store.put_operator(&row).await?;
    }
    let identity = IdentityRow { tenant: None, user };
    Ok(cloud
        .store
        .put_identity(issuer, OPERATOR, &identity)
        .await?)
}
