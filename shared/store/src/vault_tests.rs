use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

/// Everything that a blob is bound to.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    environment: String,
    tenant: Option<String>,
    connection: Option<String>,
    kind: String,
    purpose: String,
    version: u64,
    epoch: u64,
}

impl Place {
    fn data(&self) -> Vec<u8> {
        let tenant = self
            .tenant
            .as_ref()
            .map(|text| TenantId::from_stored(text).unwrap());
        let connection: Option<ConnectionId> =
            self.connection.as_ref().map(|text| text.parse().unwrap());
        let context = SealContext {
            key: KeyName::Access,
            tenant: tenant.as_ref(),
            connection: connection.as_ref(),
            kind: &self.kind,
            purpose: &self.purpose,
            version: self.version,
            epoch: self.epoch,
        };
        context.associated_data(&self.environment)
    }
}

/// Few values a part, so that two places often differ in one part only.
fn places() -> impl Strategy<Value = Place> {
    (
        "dev|prod",
        proptest::option::of("lakeside|hilltop"),
        proptest::option::of("con-1|con-2"),
        "demo|slack",
        "access|refresh",
        1..3_u64,
        1..3_u64,
    )
        .prop_map(
            |(environment, tenant, connection, kind, purpose, version, epoch)| Place {
                environment,
                tenant,
                connection,
                kind,
                purpose,
                version,
                epoch,
            },
        )
}

proptest! {
    // The data key is the same throughout: what refuses here is the sealed data, not KMS.
    #[test]
    fn a_blob_opens_in_its_own_place_only(home in places(), other in places()) {
        let secret = SecretString::from("xoxp-canary");
        let blob = seal_under(&KEY, home.data(), &secret).unwrap();
        let opened = open_under(&KEY, other.data(), &blob);
        if home == other {
            let opened = opened.unwrap();
            prop_assert_eq!(opened.expose_secret(), "xoxp-canary");
        } else {
            let moved = matches!(
                opened,
                Err(StoreError::Sealed("it was altered or belongs to another row"))
            );
            prop_assert!(moved);
        }
    }

    #[test]
    fn a_blob_with_one_changed_byte_does_not_open(index in 0..40_usize, by in 1..=255_u8) {
        let data = || b"data".to_vec();
        let secret = SecretString::from("xoxp-canary");
        let mut blob = seal_under(&KEY, data(), &secret).unwrap();
        prop_assert_eq!(blob.len(), 40);
        blob[index] ^= by;
        prop_assert!(matches!(open_under(&KEY, data(), &blob), Err(StoreError::Sealed(_))));
    }

    #[test]
    fn noise_is_refused_and_not_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..64)) {
        let opened = open_under(&KEY, Vec::new(), &noise);
        prop_assert!(matches!(opened, Err(StoreError::Sealed(_))));
    }
}

#[test]
fn a_key_of_another_size_is_refused() {
    let secret = SecretString::from("x");
    assert!(seal_under(&[1; 31], Vec::new(), &secret).is_err());
}

#[test]
fn an_hmac_depends_on_its_key_and_shows_neither_key_nor_hash() {
    let hash = Sha256Hex::of(b"{}");
    let with = |key: &str| hmac_hex(&SecretString::from(key), &hash);
    assert_eq!(with("one"), with("one"));
    assert_ne!(with("one"), with("two"));
    assert_eq!(with("one").len(), 64);
    assert!(!with("one").contains(hash.as_str()));
}
