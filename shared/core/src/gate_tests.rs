use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalogue::{Risk, ToolEntry, Transport};
use crate::sample::{NOW, user};

const READ: &str = "list_messages";
const WRITE: &str = "post_message";
const NEW: &str = "delete_everything";

/// A call and everything that the gate looks at.
#[derive(Clone, Debug)]
struct Case {
    connector: Option<Connector>,
    connection: ConnectionRow,
    role: Role,
    user: UserId,
    killed: bool,
    tool: String,
    row: Option<ToolRow>,
}

type Change = fn(&mut Case);

impl Case {
    /// A reviewed tool, on a healthy connection whose school allows every write, for an admin.
    fn of(tool: &str) -> Self {
        Self {
            connector: Some(connector()),
            connection: connection(),
            role: Role::Admin,
            user: user("ann"),
            killed: false,
            tool: tool.to_owned(),
            row: Some(reviewed(tool)),
        }
    }

    fn judge(&self) -> Verdict {
        self.gate().judge(&self.tool, self.row.as_ref())
    }

    fn access(&self) -> Access {
        self.gate().access(&self.tool, self.row.as_ref())
    }

    fn gate(&self) -> Gate<'_> {
        Gate {
            connector: self.connector.as_ref(),
            connection: &self.connection,
            role: self.role,
            user: &self.user,
            killed: self.killed,
        }
    }

    fn connector(&mut self) -> &mut Connector {
        self.connector.as_mut().unwrap()
    }

    fn hint(&mut self, hints: serde_json::Value) {
        if let Some(row) = &mut self.row {
            row.definition.annotations = Some(hints);
        }
    }
}

fn connector() -> Connector {
    let entry = ToolEntry {
        title: "Post a message".to_owned(),
        pin: None,
        approver: Default::default(),
        risk: Risk::Medium,
        effect: None,
    };
    Connector {
        key: "demo".to_owned(),
        title: "Demo".to_owned(),
        enabled: true,
        dev_only: false,
        transport: Transport::McpHttp,
        era: Some(crate::EraRule::Auto),
        sharing: Sharing::TenantShared,
        mode: Mode::Classify,
        trusted: false,
        read_tools: vec![READ.to_owned()],
        write_tools: vec![WRITE.to_owned()],
        tools: [(WRITE.to_owned(), entry)].into(),
    }
}

fn connection() -> ConnectionRow {
    ConnectionRow {
        connection: "con-1".parse().unwrap(),
        connector: "demo".to_owned(),
        status: ConnectionStatus::Active,
        usable: true,
        sharing: Sharing::TenantShared,
        owner: None,
        roles: Role::ALL.to_vec(),
        account: "acct-1".to_owned(),
        account_name: "Lakeside".to_owned(),
        write_mode: WriteMode::All,
        tool_allowlist: None,
        tool_denylist: Vec::new(),
        epoch: 1,
        connected_at: NOW,
        era: None,
    }
}

fn reviewed(tool: &str) -> ToolRow {
    let definition = ToolDefinition {
        name: tool.to_owned(),
        title: None,
        description: None,
        input_schema: serde_json::Map::new(),
        annotations: None,
    };
    ToolRow {
        connection: "con-1".parse().unwrap(),
        hash: definition.hash().unwrap(),
        definition,
        state: ToolState::Active,
    }
}

fn names(tools: &[&str]) -> Vec<String> {
    tools.iter().map(|tool| (*tool).to_owned()).collect()
}

const fn deny(why: BlockReason) -> Verdict {
    Verdict::Deny(why)
}

#[test]
fn each_rule_has_its_verdict() {
    use BlockReason as B;
    use Verdict::{Allow, Ask};
    let rows: Vec<(&str, &str, Change, Verdict)> = vec![
        // The catalogue's mode.
        ("a listed read", READ, |_| (), Allow),
        ("a listed write", WRITE, |_| (), Ask),
        ("an unknown name is a write", NEW, |_| (), Ask),
        (
            "a name that differs in case only is unknown",
            "List_messages",
            |_| (),
            Ask,
        ),
        (
            "mode deny: a listed read is a write",
            READ,
            |c| c.connector().mode = Mode::Deny,
            Ask,
        ),
        (
            "mode allowlist: a listed write",
            WRITE,
            |c| {
                c.connector().mode = Mode::Allowlist;
                c.connector().trusted = true;
            },
            Ask,
        ),
        (
            "mode allowlist: everything else is a read",
            NEW,
            |c| {
                c.connector().mode = Mode::Allowlist;
                c.connector().trusted = true;
            },
            Allow,
        ),
        (
            "mode allowlist without trust: all are writes",
            READ,
            |c| c.connector().mode = Mode::Allowlist,
            Ask,
        ),
        // The server's hints.
        (
            "a destructive hint makes a listed read a write",
            READ,
            |c| c.hint(json!({"destructiveHint": true})),
            Ask,
        ),
        (
            "even beside a read-only hint",
            READ,
            |c| c.hint(json!({"destructiveHint": true, "readOnlyHint": true})),
            Ask,
        ),
        (
            "a harmless hint changes nothing",
            READ,
            |c| c.hint(json!({"destructiveHint": false})),
            Allow,
        ),
        (
            "a read-only hint makes no write a read",
            WRITE,
            |c| c.hint(json!({"readOnlyHint": true, "idempotentHint": true})),
            Ask,
        ),
        (
            "nor an unknown name",
            NEW,
            |c| c.hint(json!({"readOnlyHint": true, "destructiveHint": false})),
            Ask,
        ),
        (
            "in mode deny a hint changes nothing either",
            READ,
            |c| {
                c.connector().mode = Mode::Deny;
                c.hint(json!({"readOnlyHint": true}));
            },
            Ask,
        ),
        // The connection's write mode.
        (
            "write mode deny: no write",
            WRITE,
            |c| c.connection.write_mode = WriteMode::Deny,
            deny(B::WriteMode),
        ),
        (
            "write mode deny: reads go on",
            READ,
            |c| c.connection.write_mode = WriteMode::Deny,
            Allow,
        ),
        (
            "write mode deny holds for a destructive read",
            READ,
            |c| {
                c.connection.write_mode = WriteMode::Deny;
                c.hint(json!({"destructiveHint": true}));
            },
            deny(B::WriteMode),
        ),
        (
            "write mode allowlist: a listed write",
            WRITE,
            |c| {
                c.connection.write_mode = WriteMode::Allowlist;
                c.connection.tool_allowlist = Some(names(&[WRITE]));
            },
            Ask,
        ),
        (
            "write mode allowlist without a list: no write",
            WRITE,
            |c| c.connection.write_mode = WriteMode::Allowlist,
            deny(B::WriteMode),
        ),
        (
            "and reads go on",
            READ,
            |c| c.connection.write_mode = WriteMode::Allowlist,
            Allow,
        ),
        (
            "write mode allowlist: a write that is not listed",
            WRITE,
            |c| {
                c.connection.write_mode = WriteMode::Allowlist;
                c.connection.tool_allowlist = Some(names(&[READ]));
            },
            deny(B::AllowList),
        ),
        // The connection's lists.
        (
            "the deny list stops a write",
            WRITE,
            |c| c.connection.tool_denylist = names(&[WRITE]),
            deny(B::DenyList),
        ),
        (
            "and a read",
            READ,
            |c| c.connection.tool_denylist = names(&[READ]),
            deny(B::DenyList),
        ),
        (
            "and beats the allow list",
            WRITE,
            |c| {
                c.connection.write_mode = WriteMode::Allowlist;
                c.connection.tool_allowlist = Some(names(&[WRITE]));
                c.connection.tool_denylist = names(&[WRITE]);
            },
            deny(B::DenyList),
        ),
        (
            "and a trusted server whose tools are all reads",
            NEW,
            |c| {
                c.connector().mode = Mode::Allowlist;
                c.connector().trusted = true;
                c.connection.tool_denylist = names(&[NEW]);
            },
            deny(B::DenyList),
        ),
        (
            "a deny list of other tools stops nothing",
            WRITE,
            |c| c.connection.tool_denylist = names(&[READ, NEW]),
            Ask,
        ),
        (
            "an allow list stops what it does not name",
            READ,
            |c| c.connection.tool_allowlist = Some(names(&[WRITE])),
            deny(B::AllowList),
        ),
        (
            "an empty allow list stops reads",
            READ,
            |c| c.connection.tool_allowlist = Some(Vec::new()),
            deny(B::AllowList),
        ),
        (
            "and writes",
            WRITE,
            |c| c.connection.tool_allowlist = Some(Vec::new()),
            deny(B::AllowList),
        ),
        (
            "and a trusted server whose tools are all reads",
            NEW,
            |c| {
                c.connector().mode = Mode::Allowlist;
                c.connector().trusted = true;
                c.connection.tool_allowlist = Some(Vec::new());
            },
            deny(B::AllowList),
        ),
        (
            "an allow list makes no write a read",
            WRITE,
            |c| c.connection.tool_allowlist = Some(names(&[WRITE])),
            Ask,
        ),
        // Reviews and pins.
        (
            "an unreviewed tool",
            READ,
            |c| c.row = None,
            deny(B::NotReviewed),
        ),
        (
            "the review of another tool",
            READ,
            |c| c.row = Some(reviewed(WRITE)),
            deny(B::NotReviewed),
        ),
        (
            "the review of a namesake on another connection",
            READ,
            |c| c.row.as_mut().unwrap().connection = "con-2".parse().unwrap(),
            deny(B::NotReviewed),
        ),
        (
            "a changed tool",
            READ,
            |c| c.row.as_mut().unwrap().state = ToolState::Withheld,
            deny(B::DefinitionChanged),
        ),
        (
            "a tool that is not the one pinned in the catalogue",
            WRITE,
            |c| {
                let entry = c.connector().tools.get_mut(WRITE).unwrap();
                entry.pin = Some(Sha256Hex::of(b"another"));
            },
            deny(B::DefinitionChanged),
        ),
        (
            "the one pinned in the catalogue",
            WRITE,
            |c| {
                let pin = c.row.as_ref().unwrap().hash.clone();
                c.connector().tools.get_mut(WRITE).unwrap().pin = Some(pin);
            },
            Ask,
        ),
        // The person.
        (
            "a role that the connection does not name",
            READ,
            |c| c.connection.roles = vec![Role::Teacher],
            deny(B::Role),
        ),
        (
            "no roles at all",
            READ,
            |c| c.connection.roles.clear(),
            deny(B::Role),
        ),
        ("a deputy reads", READ, |c| c.role = Role::Deputy, Allow),
        (
            "a deputy writes nothing",
            WRITE,
            |c| c.role = Role::Deputy,
            deny(B::Role),
        ),
        (
            "nor through an unknown name",
            NEW,
            |c| c.role = Role::Deputy,
            deny(B::Role),
        ),
        (
            "the operator writes nothing",
            WRITE,
            |c| c.role = Role::Operator,
            deny(B::Role),
        ),
        (
            "the owner",
            WRITE,
            |c| {
                c.connection.sharing = Sharing::PerUser;
                c.connection.owner = Some(user("ann"));
            },
            Ask,
        ),
        (
            "another person than the owner",
            READ,
            |c| {
                c.connection.sharing = Sharing::PerUser;
                c.connection.owner = Some(user("bob"));
            },
            deny(B::Role),
        ),
        (
            "a person's connection without its owner is nobody's",
            READ,
            |c| c.connection.sharing = Sharing::PerUser,
            deny(B::Role),
        ),
        // The whole connection.
        (
            "an unusable connection",
            READ,
            |c| c.connection.usable = false,
            deny(B::ConnectionUnusable),
        ),
        (
            "a kill switch stops reads too",
            READ,
            |c| c.killed = true,
            deny(B::Killed),
        ),
        (
            "a kill switch stops writes",
            WRITE,
            |c| c.killed = true,
            deny(B::Killed),
        ),
        (
            "an unknown type",
            READ,
            |c| c.connector = None,
            deny(B::UnknownConnector),
        ),
    ];
    for (name, tool, change, expected) in rows {
        let mut case = Case::of(tool);
        change(&mut case);
        assert_eq!(case.judge(), expected, "{name}");
    }
}

#[test]
fn the_verdicts_are_ordered_by_strictness() {
    assert!(Verdict::Allow < Verdict::Ask);
    assert!(Verdict::Ask < Verdict::Deny(BlockReason::DeniedBefore));
    assert!(Verdict::Ask < Verdict::Deny(BlockReason::UnknownConnector));
}

#[test]
fn of_several_reasons_the_most_general_is_named() {
    let mut case = Case::of(WRITE);
    let mut expect = |change: Change, why| {
        change(&mut case);
        assert_eq!(case.judge(), deny(why));
    };
    expect(
        |c| c.connection.write_mode = WriteMode::Deny,
        BlockReason::WriteMode,
    );
    expect(
        |c| c.row.as_mut().unwrap().state = ToolState::Withheld,
        BlockReason::DefinitionChanged,
    );
    expect(|c| c.row = None, BlockReason::NotReviewed);
    expect(
        |c| c.connection.tool_allowlist = Some(names(&[READ])),
        BlockReason::AllowList,
    );
    expect(
        |c| c.connection.tool_denylist = names(&[WRITE]),
        BlockReason::DenyList,
    );
    expect(|c| c.role = Role::Deputy, BlockReason::Role);
    expect(
        |c| c.connection.usable = false,
        BlockReason::ConnectionUnusable,
    );
    expect(|c| c.killed = true, BlockReason::Killed);
    expect(|c| c.connector = None, BlockReason::UnknownConnector);
}

#[test]
fn what_the_catalogue_does_not_name_is_a_write() {
    for tool in [NEW, "", "list_messages ", "demo__list_messages"] {
        assert_eq!(Case::of(tool).access(), Access::Write, "{tool:?}");
    }
    let mut unknown = Case::of(READ);
    unknown.connector = None;
    assert_eq!(unknown.access(), Access::Write);
}

#[test]
fn a_hint_of_another_type_is_no_hint() {
    for hints in [
        json!({"destructiveHint": "true"}),
        json!({"destructiveHint": null}),
        json!([]),
        json!("x"),
    ] {
        let mut case = Case::of(READ);
        case.hint(hints);
        assert_eq!(case.judge(), Verdict::Allow);
    }
}

#[test]
fn a_type_that_is_not_switched_on_is_not_executable() {
    let connection = connection();
    let person = user("ann");
    let row = reviewed(READ);
    let judge = |catalogue: &Catalogue| {
        Gate::new(catalogue, &connection, Role::Admin, &person, false).judge(READ, Some(&row))
    };
    assert_eq!(
        judge(&Catalogue::default()),
        deny(BlockReason::UnknownConnector)
    );
    assert_eq!(
        judge(&Catalogue::load(&["demo"], true).unwrap()),
        Verdict::Allow
    );
}

const fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny(_) => 2,
    }
}

/// Everything that an admin, the catalogue, a server or a fault can take away.
const RESTRICTIONS: [(&str, Change); 18] = [
    ("kill", |c| c.killed = true),
    ("make unusable", |c| c.connection.usable = false),
    ("drop the type", |c| c.connector = None),
    ("deny the tool", |c| {
        c.connection.tool_denylist.push(c.tool.clone());
    }),
    ("deny another tool", |c| {
        c.connection.tool_denylist.push("other".to_owned());
    }),
    ("begin an allow list", |c| {
        if c.connection.write_mode != WriteMode::Allowlist {
            c.connection
                .tool_allowlist
                .get_or_insert_with(|| names(&[WRITE]));
        }
    }),
    ("narrow the allow list", |c| {
        if let Some(allowed) = &mut c.connection.tool_allowlist {
            allowed.pop();
        }
    }),
    ("tighten the write mode", |c| {
        c.connection.write_mode = match c.connection.write_mode {
            WriteMode::All => WriteMode::Allowlist,
            WriteMode::Allowlist | WriteMode::Deny => WriteMode::Deny,
        };
    }),
    ("withdraw the review", |c| c.row = None),
    ("withhold the tool", |c| {
        if let Some(row) = &mut c.row {
            row.state = ToolState::Withheld;
        }
    }),
    ("hint destruction", |c| {
        c.hint(json!({"destructiveHint": true}))
    }),
    ("unlist the reads", |c| {
        if let Some(connector) = &mut c.connector {
            connector.read_tools.clear();
        }
    }),
    ("list a write", |c| {
        if let Some(connector) = &mut c.connector {
            connector.write_tools.push(c.tool.clone());
        }
    }),
    ("mode deny", |c| {
        if let Some(connector) = &mut c.connector {
            connector.mode = Mode::Deny;
        }
    }),
    ("distrust", |c| {
        if let Some(connector) = &mut c.connector {
            connector.trusted = false;
        }
    }),
    ("take a role away", |c| {
        c.connection.roles.pop();
    }),
    ("give it to another owner", |c| {
        c.connection.owner = Some(user("bob"));
    }),
    ("pin another definition", |c| {
        if let Some(connector) = &mut c.connector
            && let Some(entry) = connector.tools.get_mut(WRITE)
        {
            entry.pin = Some(Sha256Hex::of(b"another"));
        }
    }),
];

fn any_case() -> impl Strategy<Value = Case> {
    let tools = || vec![READ, WRITE, NEW];
    let list = || prop::sample::subsequence(tools(), 0..=3);
    let rules = (
        prop::sample::select(vec![Mode::Deny, Mode::Classify, Mode::Allowlist]),
        any::<bool>(),
        prop::sample::select(vec![WriteMode::Deny, WriteMode::Allowlist, WriteMode::All]),
        prop::option::of(list()),
        prop::option::weighted(0.2, list()),
    );
    let person = (
        prop::sample::select(Role::ALL.to_vec()),
        prop::sample::subsequence(Role::ALL.to_vec(), 5..=9),
        prop::option::weighted(0.3, prop::sample::select(vec!["ann", "bob"])),
        any::<bool>(),
    );
    let row = (
        prop::sample::select(tools()),
        prop::option::weighted(0.9, prop::option::weighted(0.5, any::<bool>())),
        prop::bool::weighted(0.05),
    );
    (rules, person, row).prop_map(|(rules, person, row)| {
        let (mode, trusted, write_mode, allowed, denied) = rules;
        let (role, roles, owner, is_personal) = person;
        let (tool, review, killed) = row;
        let mut case = Case::of(tool);
        case.connector().mode = mode;
        case.connector().trusted = trusted;
        case.connection.write_mode = write_mode;
        case.connection.tool_allowlist = allowed.map(|allowed| names(&allowed));
        case.connection.tool_denylist = names(&denied.unwrap_or_default());
        case.connection.roles = roles;
        case.connection.owner = owner.map(user);
        if is_personal {
            case.connection.sharing = Sharing::PerUser;
        }
        case.role = role;
        case.killed = killed;
        match review {
            None => case.row = None,
            Some(None) => {}
            Some(Some(hint)) => {
                case.hint(json!({"readOnlyHint": hint, "destructiveHint": !hint}));
            }
        }
        case
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_restriction_makes_a_verdict_less_strict(
        case in any_case(),
        restrictions in prop::sample::subsequence(RESTRICTIONS.to_vec(), 1..6),
    ) {
        let mut case = case;
        for (name, restrict) in restrictions {
            let before = case.judge();
            restrict(&mut case);
            let after = case.judge();
            prop_assert!(
                strictness(after) >= strictness(before),
                "{}: {:?} became {:?}", name, before, after
            );
        }
    }

    #[test]
    fn a_call_runs_unasked_only_as_a_read_that_the_catalogue_names_or_trusts(case in any_case()) {
        if case.judge() == Verdict::Allow {
            let connector = case.connector.as_ref().unwrap();
            let named = match connector.mode {
                Mode::Deny => false,
                Mode::Classify => connector.read_tools.contains(&case.tool),
                Mode::Allowlist => {
                    connector.trusted && !connector.write_tools.contains(&case.tool)
                }
            };
            prop_assert!(named);
            prop_assert!(!case.connection.tool_denylist.contains(&case.tool));
            prop_assert!(!case.row.unwrap().definition.says_destructive());
        }
    }
}

#[test]
fn a_kept_result_is_read_on_by_whoever_may_still_use_its_connection_and_tool() {
    use BlockReason as B;
    let rows: Vec<(&str, Change, Verdict)> = vec![
        ("a usual one", |_| (), Verdict::Allow),
        (
            "no write mode, review or pin matters: nothing is called",
            |c| {
                c.connection.write_mode = WriteMode::Deny;
                c.row = None;
            },
            Verdict::Allow,
        ),
        ("a kill switch", |c| c.killed = true, deny(B::Killed)),
        (
            "a connection that is out of use",
            |c| c.connection.usable = false,
            deny(B::ConnectionUnusable),
        ),
        (
            "a role that lost the connection",
            |c| c.connection.roles = vec![Role::Deputy],
            deny(B::Role),
        ),
        (
            "another person's own connection",
            |c| c.connection.owner = Some(user("ben")),
            deny(B::Role),
        ),
        (
            "a tool on the deny list",
            |c| c.connection.tool_denylist = names(&[READ, WRITE]),
            deny(B::DenyList),
        ),
        (
            "a type that is off",
            |c| c.connector = None,
            deny(B::UnknownConnector),
        ),
    ];
    for tool in [READ, WRITE] {
        for (what, change, verdict) in &rows {
            let mut case = Case::of(tool);
            change(&mut case);
            assert_eq!(case.gate().judge_kept(tool), *verdict, "{what}: {tool}");
        }
    }
}
