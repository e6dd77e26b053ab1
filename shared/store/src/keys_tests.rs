use proptest::prelude::*;
use toshi_core::Id;

use super::*;

/// What a row is about: two different ones must never share a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    User(String),
    Listed(String, String),
    Meta(String),
    Summary(String),
    UserMessage(String, String, String),
    Message(String, u64),
    Turn(String, u8),
    Step(String, u8, u32),
    Inbox(String, u8),
    Approval(String, u8),
    Chunk(String, u8, u32),
    ApprovalById(u8),
    Open(String, i64, u8),
    Unknown(String, String, String),
    Kill(String),
    Connection(String, String),
    Credential(String),
    Tool(String, String),
    Rate(String, i64),
    IdentityIn(String, String),
    AuditOfApproval(u8, u64),
    AuditOfTurn(u8, u64),
    Refusal(u8, String, u8),
}

fn id<K>(n: u8) -> Id<K> {
    Id::new(Millis::from_epoch(1_796_062_800_000), u128::from(n))
}

fn conversation(name: &str) -> ConversationId {
    let client = "chat-0001".parse().unwrap();
    ConversationId::of(&name.parse().unwrap(), &client)
}

impl About {
    fn key(&self, tenant: &TenantId) -> Key {
        let keys = Keys(tenant);
        match self {
            Self::User(user) => keys.user(&user.parse().unwrap()),
            Self::Listed(user, client) => {
                let client = format!("chat-000{client}").parse().unwrap();
                keys.listed_conversation(&user.parse().unwrap(), &client)
            }
            Self::Meta(c) => keys.meta(&conversation(c)),
            Self::Summary(c) => keys.summary(&conversation(c)),
            Self::UserMessage(c, id, text) => {
                keys.user_message(&conversation(c), &id.parse().unwrap(), text)
            }
            Self::Message(c, seq) => keys.message(&conversation(c), *seq),
            Self::Turn(c, n) => keys.turn(&conversation(c), id(*n)),
            Self::Step(c, n, step) => keys.step(&conversation(c), id(*n), *step),
            Self::Inbox(c, n) => keys.inbox(&conversation(c), id(*n)),
            Self::Approval(c, n) => keys.approval(&conversation(c), id(*n)),
            Self::Chunk(c, n, part) => keys.chunk(&conversation(c), id(*n), *part),
            Self::ApprovalById(n) => keys.approval_by_id(id(*n)),
            Self::Open(user, limit, n) => {
                keys.open(&user.parse().unwrap(), Millis::from_epoch(*limit), id(*n))
            }
            Self::Unknown(connection, tool, arguments) => {
                let hash = Sha256Hex::of(arguments.as_bytes());
                keys.unknown(&connection.parse().unwrap(), tool, &hash)
            }
            Self::Kill(scope) => keys.kill(scope),
            Self::Connection(kind, connection) => {
                keys.connection(kind, &connection.parse().unwrap())
            }
            Self::Credential(connection) => keys.credential(&connection.parse().unwrap()),
            Self::Tool(connection, tool) => keys.tool(&connection.parse().unwrap(), tool),
            Self::Rate(scope, window) => keys.rate(scope, *window),
            Self::IdentityIn(issuer, subject) => identity_in(issuer, subject, tenant),
            Self::AuditOfApproval(n, seq) => keys.audit(Subject::Approval(id(*n)), *seq),
            Self::AuditOfTurn(n, seq) => keys.audit(Subject::Turn(id(*n)), *seq),
            Self::Refusal(shard, day, n) => {
                let id: TurnId = id(*n);
                keys.audit_refusal(*shard, day, &id.to_string())
            }
        }
    }

    /// The two tables share no row.
    fn is_audit(&self) -> bool {
        matches!(
            self,
            Self::AuditOfApproval(..) | Self::AuditOfTurn(..) | Self::Refusal(..)
        )
    }
}

/// Names that look like parts of each other and, where a server chooses them, like whole keys.
fn name() -> impl Strategy<Value = String> {
    "[a-bA-]{1,3}"
}

/// Chosen by a server or a person: anything.
fn foreign() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab#]{1,4}".boxed(),
        "(a|b|T#a|#C#|META|CONN#a#b|T#a#C#b){1,2}".boxed(),
    ]
}

fn tenants() -> impl Strategy<Value = TenantId> {
    "[a-b-]{1,3}".prop_map(|text| TenantId::from_stored(&text).unwrap())
}

fn abouts() -> impl Strategy<Value = About> {
    let n = || 0..3_u8;
    prop_oneof![
        name().prop_map(About::User),
        (name(), name()).prop_map(|(user, client)| About::Listed(user, client)),
        name().prop_map(About::Meta),
        name().prop_map(About::Summary),
        (name(), name(), foreign()).prop_map(|(c, id, text)| About::UserMessage(c, id, text)),
        (name(), 0..40_u64).prop_map(|(c, seq)| About::Message(c, seq)),
        (name(), n()).prop_map(|(c, n)| About::Turn(c, n)),
        (name(), n(), 0..12_u32).prop_map(|(c, n, step)| About::Step(c, n, step)),
        (name(), n()).prop_map(|(c, n)| About::Inbox(c, n)),
        (name(), n()).prop_map(|(c, n)| About::Approval(c, n)),
        (name(), n(), 0..3_u32).prop_map(|(c, n, part)| About::Chunk(c, n, part)),
        n().prop_map(About::ApprovalById),
        (name(), 0..3_i64, n()).prop_map(|(user, limit, n)| About::Open(user, limit, n)),
        (name(), foreign(), name()).prop_map(|(c, tool, hash)| About::Unknown(c, tool, hash)),
        foreign().prop_map(About::Kill),
        (foreign(), name()).prop_map(|(kind, c)| About::Connection(kind, c)),
        name().prop_map(About::Credential),
        (name(), foreign()).prop_map(|(c, tool)| About::Tool(c, tool)),
        (name(), 0..3_i64).prop_map(|(user, window)| About::Rate(format!("person#{user}"), window)),
        (foreign(), foreign()).prop_map(|(issuer, subject)| About::IdentityIn(issuer, subject)),
        (n(), 0..12_u64).prop_map(|(n, seq)| About::AuditOfApproval(n, seq)),
        (n(), 0..12_u64).prop_map(|(n, seq)| About::AuditOfTurn(n, seq)),
        (0..8_u8, "2026-11-(29|30)", n()).prop_map(|(shard, day, n)| About::Refusal(shard, day, n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn two_different_rows_never_share_a_key(
        one in (tenants(), abouts()),
        two in (tenants(), abouts()),
        same_tenant in any::<bool>(),
    ) {
        let two = if same_tenant { (one.0.clone(), two.1) } else { two };
        if one != two && one.1.is_audit() == two.1.is_audit() {
            prop_assert_ne!(one.1.key(&one.0), two.1.key(&two.0));
        }
    }

    #[test]
    fn the_same_thing_in_two_schools_has_two_keys(
        one in tenants(),
        two in tenants(),
        about in abouts(),
    ) {
        prop_assert_eq!(one == two, about.key(&one) == about.key(&two));
    }

    #[test]
    fn no_row_of_a_school_is_a_row_of_the_platform(tenant in tenants(), about in abouts()) {
        let key = about.key(&tenant);
        prop_assert_ne!(&key.pk, platform());
        let user: UserId = "a".parse().unwrap();
        prop_assert_ne!(&key, &operator(&user));
        prop_assert_ne!(key, identity_of_operator("a", "b"));
    }

    #[test]
    fn a_persons_open_questions_are_found_under_their_prefix_and_nobody_elses(
        tenant in tenants(),
        one in name(),
        two in name(),
        limit in 0..i64::from(u32::MAX),
    ) {
        let (one, two): (UserId, UserId) = (one.parse().unwrap(), two.parse().unwrap());
        let key = Keys(&tenant).open(&one, Millis::from_epoch(limit), id(1));
        prop_assert!(key.sk.starts_with(&Keys::open_of(&one)));
        prop_assert_eq!(key.sk.starts_with(&Keys::open_of(&two)), one == two);
    }

    #[test]
    fn due_entries_sort_by_time_and_stay_in_one_of_sixteen_shards(
        tenant in tenants(),
        name in name(),
        one in 0..9_999_999_999_999_i64,
        two in 0..9_999_999_999_999_i64,
    ) {
        let conversation = conversation(&name);
        let sort = |due| due_sort(Millis::from_epoch(due), "AP", &tenant, &conversation, "x");
        prop_assert_eq!(sort(one).cmp(&sort(two)), one.cmp(&two));
        prop_assert!(shard_of(&conversation) < SHARDS);
    }

    #[test]
    fn numbers_in_keys_sort_as_numbers(one in 0..10_000_u32, two in 0..10_000_u32) {
        let tenant = TenantId::from_stored("a").unwrap();
        let conversation = conversation("a");
        let keys = Keys(&tenant);
        let (a, b) = (u64::from(one), u64::from(two));
        let message = |seq| keys.message(&conversation, seq).sk;
        let audit = |seq| keys.audit(Subject::Turn(id(1)), seq).sk;
        let step = |n| keys.step(&conversation, id(1), n).sk;
        prop_assert_eq!(message(a).cmp(&message(b)), a.cmp(&b));
        prop_assert_eq!(audit(a).cmp(&audit(b)), a.cmp(&b));
        prop_assert_eq!(step(one).cmp(&step(two)), one.cmp(&two));
    }
}
