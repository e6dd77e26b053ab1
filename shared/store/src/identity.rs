//! Who a person is: schools, issuers, identities, users.

use serde::{Deserialize, Serialize};
use toshi_core::{Millis, Role, TenantId, UserId};

use crate::item::{Range, from_item, to_item};
use crate::keys::{self, prefix};
use crate::{School, Store, StoreError};

/// An issuer and the audience that a school accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerRow {
    pub issuer: String,
    pub audience: String,
}

/// A school.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRow {
    pub tenant: TenantId,
    pub name: String,
    pub active: bool,
    pub issuers: Vec<IssuerRow>,
    /// How long a question waits, in milliseconds; absent means the product's default.
    #[serde(default)]
    pub decide_within_ms: Option<i64>,
    /// Nothing of the school is older: where a search through its days may stop.
    #[serde(default)]
    pub created_at: Option<Millis>,
}

/// One school that a person belongs to, or the platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityRow {
    /// Absent for the platform's own people.
    pub tenant: Option<TenantId>,
    pub user: UserId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonStatus {
    Active,
    Inactive,
}

/// A person in a school. Role and status come from here alone, read on every request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRow {
    pub user: UserId,
    pub name: String,
    pub role: Role,
    pub status: PersonStatus,
}

/// Why a row makes nobody of a school.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPerson {
    Unknown,
    Inactive,
}

impl UserRow {
    /// The row of this person, if it makes them somebody of their school. The platform's role has no
    /// place in a school's row.
    pub fn admit(row: Option<Self>, user: &UserId) -> Result<Self, NoPerson> {
        let row = row
            .filter(|row| row.user == *user && row.role != Role::Operator)
            .ok_or(NoPerson::Unknown)?;
        match row.status {
            PersonStatus::Active => Ok(row),
            PersonStatus::Inactive => Err(NoPerson::Inactive),
        }
    }
}

/// A person may belong to this many schools.
const SCHOOLS_MAX: usize = 50;
const TENANTS_MAX: usize = 10_000;

impl Store {
    /// The schools of the person whom `issuer` calls `subject`.
    pub async fn identities(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Vec<IdentityRow>, StoreError> {
        self.query(
            &keys::identity(issuer, subject),
            "",
            Range::first(SCHOOLS_MAX),
        )
        .await
    }

    pub async fn tenant_row(&self, tenant: &TenantId) -> Result<Option<TenantRow>, StoreError> {
        self.get_row(&keys::tenant_row(tenant.as_str())).await
    }

    /// Every school, for the platform's own work.
    pub async fn tenants(&self) -> Result<Vec<TenantRow>, StoreError> {
        self.query(keys::platform(), prefix::TENANT, Range::first(TENANTS_MAX))
            .await
    }

    pub async fn put_tenant(&self, row: &TenantRow) -> Result<(), StoreError> {
        let item = to_item(&keys::tenant_row(row.tenant.as_str()), row)?;
        self.put(item, None).await.map(drop)
    }

    pub async fn put_identity(
        &self,
        issuer: &str,
        subject: &str,
        row: &IdentityRow,
    ) -> Result<(), StoreError> {
        let key = match &row.tenant {
            Some(tenant) => keys::identity_in(issuer, subject, tenant),
            None => keys::identity_of_operator(issuer, subject),
        };
        self.put(to_item(&key, row)?, None).await.map(drop)
    }

    pub async fn operator(&self, user: &UserId) -> Result<Option<UserRow>, StoreError> {
        self.get(&keys::operator(user))
            .await?
            .map(from_item)
            .transpose()
    }

    pub async fn put_operator(&self, row: &UserRow) -> Result<(), StoreError> {
        self.put(to_item(&keys::operator(&row.user), row)?, None)
            .await
            .map(drop)
    }
}

impl School<'_> {
    pub async fn user(&self, user: &UserId) -> Result<Option<UserRow>, StoreError> {
        self.store.get_row(&self.keys().user(user)).await
    }

    pub async fn put_user(&self, row: &UserRow) -> Result<(), StoreError> {
        self.store
            .put(to_item(&self.keys().user(&row.user), row)?, None)
            .await
            .map(drop)
    }
}
