//! Who calls: a bearer token, checked, and the person's row in the school.
//!
//! The person is found by the token's issuer and subject before the token is believed; only the
//! school that this leads to says which issuer and audience it accepts, and only then are that
//! issuer's keys fetched. So nothing is ever fetched from an address that a caller made up. Whoever
//! is not found is told so after the signature holds, under the keys of an issuer that some school
//! accepts: a token that anybody can write tells nobody who exists. Role and status come from the
//! user's row alone, read on every request.

mod kept;
mod keys;
mod token;

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use toshi_core::{Actor, Millis, Role, TenantId, UserId};
use toshi_store::{IdentityRow, IssuerRow, PersonStatus, Store, TenantRow, UserRow};

use crate::{Code, Problem};
use kept::Kept;
use keys::IssuerKeys;
use token::Token;

/// How long a person's schools and a school's settings are believed.
const KEPT_MS: i64 = 5 * 60 * 1000;
const PEOPLE_MAX: usize = 4_096;
const SCHOOLS_MAX: usize = 1_024;
/// An `Authorization` header, in bytes.
const HEADER_MAX: usize = 8 * 1024;

/// A member of a school whose token was checked. What they may do stands in their row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: TenantRow,
    pub user: UserId,
}

/// One of the platform's own people, whose token was checked. Belongs to no school.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub user: UserId,
}

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signed {
    Member(Caller),
    Operator(Operator),
}

/// A caller with the row that says who they are in their school.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub tenant: TenantId,
    pub tenant_name: String,
    pub user: UserId,
    pub name: String,
    pub role: Role,
}

impl Person {
    /// For the record.
    pub fn actor(&self) -> Actor {
        Actor::User {
            id: self.user.clone(),
            name: self.name.clone(),
            role: self.role,
        }
    }
}

impl Caller {
    /// The person, from their row as just read.
    pub fn person(&self, row: Option<UserRow>) -> Result<Person, Problem> {
        let UserRow {
            user,
            name,
            role,
            status: _,
        } = UserRow::admit(row, &self.user)?;
        Ok(Person {
            tenant: self.tenant.tenant.clone(),
            tenant_name: self.tenant.name.clone(),
            user,
            name,
            role,
        })
    }
}

/// Checks tokens. One per process: it keeps keys and look-ups.
#[derive(Debug)]
pub struct Identity {
    store: Store,
    keys: IssuerKeys,
    people: Kept<(String, String), Vec<IdentityRow>>,
    schools: Kept<TenantId, TenantRow>,
    /// What all schools accept together.
    accepted: Kept<(), Arc<[IssuerRow]>>,
}

impl Identity {
    /// `dev` allows issuers on loopback addresses.
    pub fn new(store: Store, http: reqwest::Client, dev: bool) -> Self {
        Self {
            store,
            keys: IssuerKeys::new(http, dev),
            people: Kept::new(PEOPLE_MAX, KEPT_MS),
            schools: Kept::new(SCHOOLS_MAX, KEPT_MS),
            accepted: Kept::new(1, KEPT_MS),
        }
    }

    /// The person behind a request to a school's route: both halves, one after the other.
    pub async fn person(&self, headers: &HeaderMap, now: Millis) -> Result<Person, Problem> {
        let caller = self.authenticate(headers, now).await?;
        let row = self
            .store
            .school(&caller.tenant.tenant)
            .user(&caller.user)
            .await?;
        caller.person(row)
    }

    /// The member behind a request to a school's route, still without their row.
    pub async fn authenticate(&self, headers: &HeaderMap, now: Millis) -> Result<Caller, Problem> {
        match self.signed(headers, now).await? {
            Signed::Member(caller) => Ok(caller),
            Signed::Operator(_) => Err(Problem::new(Code::NotForOperators)),
        }
    }

    /// Whoever signed in.
    pub async fn signed(&self, headers: &HeaderMap, now: Millis) -> Result<Signed, Problem> {
        let token = Token::read(bearer(headers)?)?;
        let rows = self.identities(&token, now).await?;
        let signed = match choose(&rows, token.tenant()) {
            Ok(Chosen::School(tenant, user)) => {
                let tenant = self.school(tenant, now).await?;
                self.check(&token, &tenant.issuers, now).await?;
                // Said only to someone who proved to be from that school.
                if !tenant.active {
                    return Err(Problem::new(Code::TenantInactive));
                }
                Signed::Member(Caller {
                    tenant,
                    user: user.clone(),
                })
            }
            Ok(Chosen::Platform(user)) => {
                self.check_anywhere(&token, now).await?;
                Signed::Operator(Operator { user: user.clone() })
            }
            Err(problem) => {
                self.check_anywhere(&token, now).await?;
                return Err(problem);
            }
        };
        note(&signed);
        Ok(signed)
    }

    /// The operator's own row.
    pub async fn operator(&self, operator: &Operator) -> Result<UserRow, Problem> {
        let row = self.store.operator(&operator.user).await?;
        let row = row.ok_or_else(|| Problem::new(Code::UnknownPerson))?;
        match row.status {
            PersonStatus::Active => Ok(row),
            PersonStatus::Inactive => Err(Problem::new(Code::PersonInactive)),
        }
    }

    /// Whether the token is genuine and for us, by what `accepted` says of its issuer.
    async fn check(
        &self,
        token: &Token<'_>,
        accepted: &[IssuerRow],
        now: Millis,
    ) -> Result<(), Problem> {
        let audiences: Vec<&str> = accepted
            .iter()
            .filter(|row| row.issuer == token.issuer())
            .map(|row| row.audience.as_str())
            .collect();
        if audiences.is_empty() {
            return Err(Problem::new(Code::TokenInvalid));
        }
        let key = self.keys.find(token.issuer(), token.kid(), now).await?;
        token.verify(&key, &audiences, now)
    }

    /// The same for a token of nobody's school: an operator signs in where some school's people do,
    /// and their own row names the issuer; a stranger has no row at all.
    async fn check_anywhere(&self, token: &Token<'_>, now: Millis) -> Result<(), Problem> {
        let accepted = match self.accepted.get(&(), now) {
            Some(accepted) => accepted,
            None => {
                let schools = self.store.tenants().await?;
                let rows = schools.into_iter().flat_map(|school| school.issuers);
                let accepted: Arc<[IssuerRow]> = rows.collect();
                self.accepted.put((), Arc::clone(&accepted), now);
                accepted
            }
        };
        self.check(token, &accepted, now).await
    }

    async fn identities(
        &self,
        token: &Token<'_>,
        now: Millis,
    ) -> Result<Vec<IdentityRow>, Problem> {
        let name = (token.issuer().to_owned(), token.subject().to_owned());
        if let Some(rows) = self.people.get(&name, now) {
            return Ok(rows);
        }
        let rows = self.store.identities(&name.0, &name.1).await?;
        // A stranger is not kept: they must not push out those who belong here.
        if !rows.is_empty() {
            self.people.put(name, rows.clone(), now);
        }
        Ok(rows)
    }

    async fn school(&self, tenant: &TenantId, now: Millis) -> Result<TenantRow, Problem> {
        if let Some(row) = self.schools.get(tenant, now) {
            return Ok(row);
        }
        let row = self.store.tenant_row(tenant).await?;
        // A person's row that names no school: as if the school accepted no issuer.
        let row = row.ok_or_else(|| Problem::new(Code::TokenInvalid))?;
        self.schools.put(tenant.clone(), row.clone(), now);
        Ok(row)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Chosen<'a> {
    School(&'a TenantId, &'a UserId),
    Platform(&'a UserId),
}

/// A person of one school is in that school; one of several says which. A claim selects among a
/// person's own schools and never adds one.
fn choose<'a>(rows: &'a [IdentityRow], claim: Option<&str>) -> Result<Chosen<'a>, Problem> {
    let schools: Vec<(&TenantId, &UserId)> = rows
        .iter()
        .filter_map(|row| Some((row.tenant.as_ref()?, &row.user)))
        .collect();
    if let Some(claim) = claim {
        return schools
            .iter()
            .find(|(tenant, _)| tenant.as_str() == claim)
            .map(|(tenant, user)| Chosen::School(tenant, user))
            .ok_or_else(|| Problem::new(Code::WrongTenant));
    }
    match schools.as_slice() {
        [(tenant, user)] => Ok(Chosen::School(tenant, user)),
        [] => rows
            .first()
            .map(|row| Chosen::Platform(&row.user))
            .ok_or_else(|| Problem::new(Code::UnknownPerson)),
        _ => Err(Problem::saying(
            Code::WrongTenant,
            "This person belongs to several schools; the sign-in must say which one is meant.",
        )),
    }
}

/// The token in the header. The name of the scheme is not case-sensitive.
fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values
        .next()
        .ok_or_else(|| Problem::new(Code::TokenMissing))?;
    // Two are refused: whoever stands before us may have looked at the other one.
    let text = value
        .to_str()
        .ok()
        .filter(|text| text.len() <= HEADER_MAX && values.next().is_none())
        .ok_or_else(|| Problem::new(Code::TokenInvalid))?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        _ => Err(Problem::new(Code::TokenMissing)),
    }
}

/// For every line that is logged from here on.
fn note(signed: &Signed) {
    let span = tracing::Span::current();
    match signed {
        Signed::Member(caller) => {
            span.record("tenant", tracing::field::display(&caller.tenant.tenant));
            span.record("user", tracing::field::display(&caller.user));
        }
        Signed::Operator(operator) => {
            span.record("user", tracing::field::display(&operator.user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tenant: Option<&str>) -> IdentityRow {
        IdentityRow {
            tenant: tenant.map(|id| TenantId::from_stored(id).unwrap()),
            user: "ann".parse().unwrap(),
        }
    }

    #[test]
    fn a_claim_selects_among_a_persons_own_schools_and_adds_none() {
        let (one, two) = (row(Some("lakeside")), row(Some("hilltop")));
        let both = [one.clone(), two];
        let school = |chosen: Chosen<'_>| match chosen {
            Chosen::School(tenant, _) => tenant.to_string(),
            Chosen::Platform(_) => "platform".to_owned(),
        };
        let code = |rows: &[IdentityRow], claim| choose(rows, claim).unwrap_err().code();
        assert_eq!(
            school(choose(std::slice::from_ref(&one), None).unwrap()),
            "lakeside"
        );
        assert_eq!(school(choose(&both, Some("hilltop")).unwrap()), "hilltop");
        assert_eq!(code(&both, None), Code::WrongTenant);
        assert_eq!(code(&both, Some("valley")), Code::WrongTenant);
        assert_eq!(code(&[one], Some("hilltop")), Code::WrongTenant);
        assert_eq!(school(choose(&[row(None)], None).unwrap()), "platform");
        assert_eq!(code(&[row(None)], Some("lakeside")), Code::WrongTenant);
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers)
                .map(str::to_owned)
                .map_err(|problem| problem.code())
        };
        assert_eq!(read("Bearer abc"), Ok("abc".to_owned()));
        assert_eq!(read("bearer abc"), Ok("abc".to_owned()));
        assert_eq!(read("Basic abc"), Err(Code::TokenMissing));
        let long = format!("Bearer {}", "a".repeat(HEADER_MAX));
        assert_eq!(read(&long), Err(Code::TokenInvalid));
        assert_eq!(
            bearer(&HeaderMap::new()).unwrap_err().code(),
            Code::TokenMissing
        );
        let mut two = HeaderMap::new();
        two.append("authorization", "Bearer abc".parse().unwrap());
        two.append("authorization", "Bearer abc".parse().unwrap());
        assert_eq!(bearer(&two).unwrap_err().code(), Code::TokenInvalid);
    }
}
