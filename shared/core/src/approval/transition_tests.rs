use proptest::prelude::*;

use super::*;
use crate::audit::{RecordEvent, verify_chain};
use crate::limits::RUN_WITHIN_MS;
use crate::sample::{
    DECIDE_BY, LEASE_MS, NOW, Stored, approval, by, claim, decide, id, refused, requester, resolve,
    settle, succeeded, unknown,
};

/// Every event, each with the attempt that the samples claim under.
fn events(now: Millis) -> [(&'static str, Event, Cause); 15] {
    let system = Cause::system;
    [
        ("approve", decide(Answer::Approve), requester()),
        ("reject", decide(Answer::Reject), requester()),
        ("expire", Event::Expire, system()),
        ("void", Event::Void(VoidReason::PersonChanged), system()),
        ("supersede", Event::Supersede(id(99)), system()),
        ("block", Event::Block(BlockReason::Killed), system()),
        ("give up", Event::GiveUp(NotSent::ToolGone), system()),
        ("claim", claim(id(8), now), system()),
        ("send again", Event::SendAgain { attempt: id(7) }, system()),
        ("success", settle(id(7), succeeded()), system()),
        ("failure", settle(id(7), refused()), system()),
        ("no answer", settle(id(7), unknown()), system()),
        ("abandon", Event::Abandon, system()),
        ("done", resolve(true), requester()),
        ("not done", resolve(false), requester()),
    ]
}

/// Breaks the build for an event that [`events`] does not know yet.
fn column(event: &Event) -> usize {
    match event {
        Event::Decide {
            answer: Answer::Approve,
            ..
        } => 0,
        Event::Decide {
            answer: Answer::Reject,
            ..
        } => 1,
        Event::Expire => 2,
        Event::Void(_) => 3,
        Event::Supersede(_) => 4,
        Event::Block(_) => 5,
        Event::GiveUp(_) => 6,
        Event::Claim { .. } => 7,
        Event::SendAgain { .. } => 8,
        Event::Settle { outcome, .. } => match outcome {
            Outcome::Succeeded { .. } => 9,
            Outcome::ReportedError { .. } | Outcome::Refused { .. } | Outcome::NotSent { .. } => 10,
            Outcome::Unknown { .. } => 11,
        },
        Event::Abandon => 12,
        Event::Resolve { done: true, .. } => 13,
        Event::Resolve { done: false, .. } => 14,
    }
}

/// The new state's name, or the refusal's.
fn told(from: State, result: &Result<Transition, Refusal>) -> &'static str {
    match result {
        Ok(transition) => transition.row.state.as_str(),
        Err(Refusal::SameAnswer) => "=same",
        Err(Refusal::AlreadyDecided) => "=other",
        Err(Refusal::NotYours) => "=not yours",
        Err(Refusal::Expired) => "=expired",
        Err(Refusal::NotDue) => "=not due",
        Err(Refusal::OtherAttempt) => "=attempt",
        Err(Refusal::WrongState(state)) => {
            assert_eq!(*state, from, "the refusal names the state as it is");
            "-"
        }
    }
}

/// Rows: every state. Columns: every event, in the order of [`events`], within all time limits.
/// `-` is refused as not possible in this state, `=…` for the reason named.
#[rustfmt::skip]
const TABLE: [(State, [&str; 15]); 13] = [
    //                        approve     reject      expire      void      supersede     block      give up   claim        send again   success      failure    no answer   abandon     done             not done
    (State::Pending,         ["approved", "rejected", "=not due", "voided", "superseded", "-",       "-",      "-",         "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Approved,        ["=same",    "=other",   "=not due", "voided", "superseded", "blocked", "failed", "executing", "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Rejected,        ["=other",   "=same",    "-",        "-",      "-",          "-",       "-",      "-",         "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Expired,         ["=expired", "=expired", "-",        "-",      "-",          "-",       "-",      "-",         "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Voided,          ["-",        "-",        "-",        "-",      "-",          "-",       "-",      "-",         "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Superseded,      ["-",        "-",        "-",        "-",      "-",          "-",       "-",      "-",         "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Executing,       ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "executing", "succeeded", "failed",   "unknown",  "=not due", "-",             "-"]),
    (State::Blocked,         ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "-",         "=attempt",  "=attempt", "=attempt", "-",        "-",             "-"]),
    (State::Succeeded,       ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "-",         "-",         "-",        "-",        "-",        "-",             "-"]),
    (State::Failed,          ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "-",         "-",         "-",        "-",        "-",        "-",             "-"]),
    (State::Unknown,         ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "-",         "succeeded", "failed",   "-",        "-",        "resolved_done", "resolved_not_done"]),
    (State::ResolvedDone,    ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "-",         "resolved_done",     "resolved_done",     "-", "-", "=same",  "=other"]),
    (State::ResolvedNotDone, ["=same",    "=other",   "-",        "-",      "-",          "-",       "-",      "-",         "-",         "resolved_not_done", "resolved_not_done", "-", "-", "=other", "=same"]),
];

/// What differs from [`TABLE`] once every time limit has passed.
const TOO_LATE: [(State, &str, &str); 7] = [
    (State::Pending, "approve", "=expired"),
    (State::Pending, "reject", "=expired"),
    (State::Pending, "expire", "expired"),
    (State::Approved, "expire", "expired"),
    (State::Approved, "claim", "=expired"),
    (State::Executing, "send again", "=attempt"),
    (State::Executing, "abandon", "unknown"),
];

#[test]
fn every_event_in_every_state_does_what_the_table_says() {
    assert_eq!(TABLE.map(|(state, _)| state), State::ALL);
    for (state, row) in TABLE {
        let from = Stored::in_state(state).row;
        for (at, (name, event, cause)) in events(NOW).into_iter().enumerate() {
            assert_eq!(column(&event), at, "{name}");
            let result = from.apply(event, &cause, NOW);
            assert_eq!(told(state, &result), row[at], "{name} in {state:?}");
        }
    }
}

#[test]
fn after_the_limits_only_what_depends_on_time_differs() {
    let late = DECIDE_BY;
    for (state, row) in TABLE {
        let from = Stored::in_state(state).row;
        for (at, (name, event, cause)) in events(late).into_iter().enumerate() {
            let expected = TOO_LATE
                .iter()
                .find(|(from, event, _)| *from == state && *event == name)
                .map_or(row[at], |(_, _, to)| to);
            let result = from.apply(event, &cause, late);
            assert_eq!(told(state, &result), expected, "{name} in {state:?}");
        }
    }
}

#[test]
fn every_transition_has_its_effects_and_its_record() {
    use Effect::{AddUnknown, Alarm, CloseOpen, RemoveUnknown, Wake};
    let record_of = |name: &str| match name {
        "approve" | "reject" => RecordEvent::Decided,
        "expire" => RecordEvent::Expired,
        "void" => RecordEvent::Voided,
        "supersede" => RecordEvent::Superseded,
        "block" => RecordEvent::Blocked,
        "done" | "not done" => RecordEvent::Resolved,
        _ => RecordEvent::Settled,
    };
    for now in [NOW, DECIDE_BY] {
        for state in State::ALL {
            let from = Stored::in_state(state).row;
            for (name, event, cause) in events(now) {
                let Ok(transition) = from.apply(event, &cause, now) else {
                    continue;
                };
                let (effects, record) = match (state, name) {
                    (State::Pending, _) => (vec![CloseOpen, Wake], record_of(name)),
                    (State::Approved, "claim") => (vec![], RecordEvent::Claimed),
                    (State::Approved, _) => (vec![Wake], record_of(name)),
                    (State::Executing, "no answer" | "abandon") => {
                        (vec![AddUnknown, Wake], RecordEvent::Settled)
                    }
                    (State::Executing, "send again") => (vec![], RecordEvent::Attempted),
                    (State::Executing, _) => (vec![Wake], RecordEvent::Settled),
                    (State::Unknown, "success" | "failure") => {
                        (vec![RemoveUnknown, Wake], RecordEvent::LateResult)
                    }
                    (State::Unknown, _) => (vec![RemoveUnknown], RecordEvent::Resolved),
                    (State::ResolvedDone | State::ResolvedNotDone, _) => {
                        (vec![Alarm], RecordEvent::LateResult)
                    }
                    _ => panic!("{name} in {state:?} must be refused"),
                };
                assert_eq!(transition.effects, effects, "{name} in {state:?}");
                assert_eq!(transition.record.event, record, "{name} in {state:?}");
                assert_eq!(transition.record.actor, cause.actor);
                assert_eq!(transition.record.approval, Some(from.approval_id));
            }
        }
    }
}

#[test]
fn an_answer_at_the_limit_is_too_late_and_one_before_it_is_not() {
    let row = approval(1);
    let approve = |now| row.apply(decide(Answer::Approve), &requester(), now);
    assert_eq!(approve(DECIDE_BY), Err(Refusal::Expired));
    assert!(approve(DECIDE_BY.plus(-1)).is_ok());
    let expire = |now| row.apply(Event::Expire, &Cause::system(), now);
    assert_eq!(expire(DECIDE_BY.plus(-1)), Err(Refusal::NotDue));
    assert!(expire(DECIDE_BY).is_ok());
}

#[test]
fn a_question_without_a_readable_limit_has_expired() {
    let mut json = serde_json::to_value(approval(1)).unwrap();
    for limit in [
        None,
        Some(serde_json::Value::Null),
        Some("tomorrow".into()),
        Some((-1).into()),
    ] {
        let object = json.as_object_mut().unwrap();
        match limit {
            None => object.remove("decide_by"),
            Some(value) => object.insert("decide_by".to_owned(), value),
        };
        let row: Approval = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(row.due(NOW), Some(NOW), "its sweep is due at once");
        assert_eq!(
            row.apply(decide(Answer::Approve), &requester(), NOW),
            Err(Refusal::Expired)
        );
        let expired = row.apply(Event::Expire, &Cause::system(), NOW).unwrap();
        assert_eq!(expired.row.state, State::Expired);
    }
}

#[test]
fn limits_that_are_missing_later_have_passed_too() {
    let mut approved = Stored::in_state(State::Approved).row;
    approved.run_by = None;
    let claimed = approved.apply(claim(id(7), NOW), &Cause::system(), NOW);
    assert_eq!(claimed, Err(Refusal::Expired));

    let mut json = serde_json::to_value(Stored::in_state(State::Executing).row).unwrap();
    json["attempt"]
        .as_object_mut()
        .unwrap()
        .remove("lease_until");
    let executing: Approval = serde_json::from_value(json).unwrap();
    let abandoned = executing
        .apply(Event::Abandon, &Cause::system(), NOW)
        .unwrap();
    assert_eq!(abandoned.row.state, State::Unknown);
}

#[test]
fn a_yes_may_be_run_for_ten_minutes() {
    let row = Stored::in_state(State::Approved).row;
    assert_eq!(row.run_by().time(), Some(NOW.plus(10 * 60 * 1000)));
    let claimed = |now| row.apply(claim(id(7), now), &Cause::system(), now);
    assert!(claimed(NOW.plus(RUN_WITHIN_MS - 1)).is_ok());
    assert_eq!(claimed(NOW.plus(RUN_WITHIN_MS)), Err(Refusal::Expired));
}

#[test]
fn only_the_requester_answers() {
    let row = approval(1);
    for cause in [
        by("bob", Role::Teacher),
        by("eve", Role::Admin),
        Cause::system(),
    ] {
        for answer in [Answer::Approve, Answer::Reject] {
            assert_eq!(
                row.apply(decide(answer), &cause, NOW),
                Err(Refusal::NotYours)
            );
        }
    }
    // Nor does anybody else learn that an answer is on record.
    let approved = Stored::in_state(State::Approved).row;
    let again = approved.apply(decide(Answer::Approve), &by("bob", Role::Teacher), NOW);
    assert_eq!(again, Err(Refusal::NotYours));
}

#[test]
fn the_requester_an_admin_or_the_operator_resolves() {
    let row = Stored::in_state(State::Unknown).row;
    for cause in [
        requester(),
        by("eve", Role::Admin),
        by("ops", Role::Operator),
    ] {
        let resolved = row.apply(resolve(true), &cause, NOW).unwrap().row;
        assert_eq!(resolved.state, State::ResolvedDone);
        assert_eq!(resolved.resolution.unwrap().by, cause.actor);
    }
    for cause in [by("bob", Role::Teacher), Cause::system()] {
        assert_eq!(
            row.apply(resolve(true), &cause, NOW),
            Err(Refusal::NotYours)
        );
    }
}

#[test]
fn the_same_answer_again_is_the_same_and_another_is_refused() {
    for (first, other) in [
        (Answer::Approve, Answer::Reject),
        (Answer::Reject, Answer::Approve),
    ] {
        let mut stored = Stored::ask(approval(1));
        stored.apply(decide(first), &requester(), NOW).unwrap();
        let decided = stored.row.decision.clone();
        // Even long after every limit.
        for now in [NOW, DECIDE_BY] {
            let again = stored.apply(decide(first), &requester(), now);
            assert_eq!(again, Err(Refusal::SameAnswer));
            let changed = stored.apply(decide(other), &requester(), now);
            assert_eq!(changed, Err(Refusal::AlreadyDecided));
        }
        assert_eq!(stored.row.decision, decided);
        assert_eq!(stored.records.len(), 2);
    }
}

#[test]
fn a_call_is_claimed_once() {
    let mut stored = Stored::in_state(State::Executing);
    let second = stored.apply(claim(id(8), NOW), &Cause::system(), NOW);
    assert_eq!(second, Err(Refusal::WrongState(State::Executing)));
    assert_eq!(stored.row.attempt.unwrap().id, id(7));
}

#[test]
fn no_row_is_claimed_without_a_recorded_yes() {
    let mut row = Stored::in_state(State::Approved).row;
    row.decision = None;
    let claimed = row.apply(claim(id(7), NOW), &Cause::system(), NOW);
    assert_eq!(claimed, Err(Refusal::WrongState(State::Approved)));
    row.decision = Stored::in_state(State::Rejected).row.decision;
    let claimed = row.apply(claim(id(7), NOW), &Cause::system(), NOW);
    assert_eq!(claimed, Err(Refusal::WrongState(State::Approved)));
}

#[test]
fn a_foreign_attempt_settles_nothing() {
    for state in [State::Executing, State::Unknown, State::ResolvedDone] {
        let mut stored = Stored::in_state(state);
        let settled = stored.apply(settle(id(8), succeeded()), &Cause::system(), NOW);
        assert_eq!(settled, Err(Refusal::OtherAttempt), "{state:?}");
        assert_eq!(stored.row.state, state);
    }
}

#[test]
fn a_result_counts_although_its_lease_ran_out() {
    let mut stored = Stored::in_state(State::Executing);
    let late = NOW.plus(10 * LEASE_MS);
    stored
        .apply(settle(id(7), succeeded()), &Cause::system(), late)
        .unwrap();
    assert_eq!(stored.row.state, State::Succeeded);
}

#[test]
fn a_late_true_result_replaces_an_unknown_one() {
    let outcomes = [
        (succeeded(), State::Succeeded),
        (refused(), State::Failed),
        (
            Outcome::ReportedError {
                text: "half".to_owned(),
            },
            State::Failed,
        ),
    ];
    for (outcome, state) in outcomes {
        let mut stored = Stored::in_state(State::Executing);
        let lapsed = NOW.plus(LEASE_MS);
        stored
            .apply(Event::Abandon, &Cause::system(), lapsed)
            .unwrap();
        assert!(stored.unknown);
        let event = settle(id(7), outcome.clone());
        stored.apply(event, &Cause::system(), lapsed).unwrap();
        assert_eq!(stored.row.state, state);
        assert_eq!(stored.row.outcome, Some(outcome));
        assert!(!stored.unknown);
    }
}

#[test]
fn a_result_after_a_resolution_is_kept_once_as_evidence_and_alarms() {
    for state in [State::ResolvedDone, State::ResolvedNotDone] {
        let mut stored = Stored::in_state(state);
        let before = stored.row.clone();
        stored
            .apply(settle(id(7), succeeded()), &Cause::system(), NOW)
            .unwrap();
        assert_eq!(stored.row.state, state);
        assert_eq!(stored.row.resolution, before.resolution);
        assert_eq!(stored.row.outcome, Some(succeeded()));
        assert_eq!(stored.alarms, 1);
        // The writer did not hear that it was committed and tries again.
        let again = stored.apply(settle(id(7), succeeded()), &Cause::system(), NOW);
        assert_eq!(again, Err(Refusal::WrongState(state)));
        assert_eq!(stored.alarms, 1);
    }
}

#[test]
fn a_call_is_sent_again_once_by_its_own_attempt_within_its_lease() {
    let again = |attempt| Event::SendAgain { attempt };
    let mut stored = Stored::in_state(State::Executing);
    let lease = stored.row.lease();
    let foreign = stored.apply(again(id(8)), &Cause::system(), NOW);
    assert_eq!(foreign, Err(Refusal::OtherAttempt));
    let lapsed = stored
        .clone()
        .apply(again(id(7)), &Cause::system(), NOW.plus(LEASE_MS));
    assert_eq!(lapsed, Err(Refusal::OtherAttempt));

    stored
        .apply(again(id(7)), &Cause::system(), NOW.plus(LEASE_MS - 1))
        .unwrap();
    let attempt = stored.row.attempt.clone().unwrap();
    assert_eq!((attempt.id, attempt.number), (id(7), 2));
    assert_eq!(attempt.lease_until, lease, "it does not extend the lease");
    let third = stored.apply(again(id(7)), &Cause::system(), NOW);
    assert_eq!(third, Err(Refusal::OtherAttempt));
}

#[test]
fn only_open_and_executing_rows_are_due() {
    for state in State::ALL {
        let row = Stored::in_state(state).row;
        let due = match state {
            State::Pending => Some(DECIDE_BY),
            State::Approved => Some(NOW.plus(RUN_WITHIN_MS)),
            State::Executing => Some(NOW.plus(LEASE_MS)),
            _ => None,
        };
        assert_eq!(row.due(NOW), due, "{state:?}");
        let moved = row.overdue().map(|event| {
            let moved = row.apply(event, &Cause::system(), due.unwrap_or(NOW));
            moved.unwrap().row.state
        });
        let expected = match state {
            State::Pending | State::Approved => Some(State::Expired),
            State::Executing => Some(State::Unknown),
            _ => None,
        };
        assert_eq!(moved, expected, "{state:?}");
    }
}

#[test]
fn every_state_reads_back_by_its_name() {
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
        assert_eq!(
            serde_json::to_value(state).unwrap(),
            serde_json::Value::from(state.as_str())
        );
        let row = Stored::in_state(state).row;
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Approval>(&text).unwrap(), row);
    }
    assert_eq!(State::parse("done"), None);
}

fn any_cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        6 => Just(requester()),
        1 => Just(by("bob", Role::Teacher)),
        1 => Just(by("eve", Role::Admin)),
        1 => Just(Cause::system()),
    ]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        2 => Just(unknown()),
        1 => Just(succeeded()),
        1 => Just(refused()),
        1 => Just(Outcome::ReportedError { text: "half".to_owned() }),
        1 => Just(Outcome::NotSent { why: "no route".to_owned() }),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let attempt = || prop_oneof![4 => Just(7), 1 => Just(8)].prop_map(id::<_>);
    prop_oneof![
        6 => Just(decide(Answer::Approve)),
        1 => Just(decide(Answer::Reject)),
        1 => Just(Event::Expire),
        1 => Just(Event::Void(VoidReason::NotDelivered)),
        1 => Just(Event::Supersede(id(99))),
        1 => Just(Event::Block(BlockReason::WriteMode)),
        1 => Just(Event::GiveUp(NotSent::NeedsReauth)),
        6 => (attempt(), -1_000..LEASE_MS).prop_map(|(attempt, ms)| Event::Claim {
            attempt,
            lease_until: NOW.plus(ms),
        }),
        2 => attempt().prop_map(|attempt| Event::SendAgain { attempt }),
        4 => (attempt(), any_outcome()).prop_map(|(attempt, outcome)| settle(attempt, outcome)),
        2 => Just(Event::Abandon),
        2 => any::<bool>().prop_map(resolve),
    ]
}

/// Mostly still, sometimes on by seconds or days, sometimes back.
fn any_jump() -> impl Strategy<Value = i64> {
    let day = 24 * 60 * 60 * 1000;
    prop_oneof![
        12 => Just(0_i64),
        4 => 0_i64..60_000,
        1 => 0_i64..2 * day,
        2 => -2 * day..0_i64,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_sequence_of_events_breaks_an_invariant(
        steps in prop::collection::vec((any_jump(), any_event(), any_cause()), 1..40)
    ) {
        let mut stored = Stored::ask(approval(1));
        let mut now = NOW;
        let mut claims = 0;
        for (jump, event, cause) in steps {
            now = now.plus(jump);
            let before = stored.clone();
            let is_claim = matches!(event, Event::Claim { .. });
            match stored.apply(event, &cause, now) {
                Ok(_) => {
                    prop_assert_eq!(stored.records.len(), before.records.len() + 1);
                    claims += u32::from(is_claim);
                }
                Err(_) => prop_assert_eq!(&stored.row, &before.row),
            }
            let (was, row) = (&before.row, &stored.row);
            prop_assert!(claims <= 1);
            if row.attempt.is_some() {
                let decision = row.decision.as_ref().unwrap();
                prop_assert_eq!(decision.answer, Answer::Approve);
                prop_assert_eq!(&decision.by, &requester().actor);
            }
            if was.decision.is_some() {
                prop_assert_eq!(&row.decision, &was.decision);
            }
            if was.state.is_settled() && was.state != State::Unknown {
                prop_assert_eq!(row.state, was.state);
                prop_assert_eq!(&row.resolution, &was.resolution);
            }
            if was.state == State::Superseded {
                prop_assert_eq!(row, was);
            }
            // What must not change at all: what the person was shown.
            prop_assert_eq!(&row.arguments, &was.arguments);
            prop_assert_eq!(&row.connection, &was.connection);
            prop_assert_eq!(stored.open, row.state == State::Pending);
            prop_assert_eq!(stored.unknown, row.state == State::Unknown);
            prop_assert!(stored.alarms <= 1);
        }
        let seqs: Vec<u64> = stored.records.iter().map(|record| record.seq).collect();
        let expected: Vec<u64> = (1..=stored.row.seq).collect();
        prop_assert_eq!(seqs, expected);
        let verified = verify_chain(&stored.subject(), &stored.records, Some(&stored.seal()));
        prop_assert_eq!(verified, Ok(()));
    }
}
