use proptest::prelude::*;

use super::*;
use crate::sample::{DECIDE_BY, NOW, approval_id, approvals_in, id, user};

const PLENTY: i64 = TURN_NEEDS_MS;

fn turn(n: u128, state: TurnState) -> TurnRow {
    TurnRow {
        turn: id(n),
        user: user("ann"),
        message: "m-1".parse().unwrap(),
        message_seq: 1,
        answer: id(n),
        answer_seq: 2,
        state,
        steps: 1,
        run_at: NOW,
        takeovers: 0,
        interrupted_at: None,
        created_at: NOW,
        seq: 0,
        head: None,
    }
}

fn step(n: u128, approvals: &[Approval]) -> StepRow {
    let read = StepCall {
        call: id(50),
        name: "demo__list_channels".to_owned(),
        connection: None,
        tool: "list_channels".to_owned(),
        title: "List channels".to_owned(),
        arguments: Canonical::parse("{}").unwrap(),
        outcome: CallOutcome::Read {
            outcome: crate::sample::succeeded(),
            chunks: 0,
        },
    };
    let write = |approval: &Approval| StepCall {
        call: approval.call,
        outcome: CallOutcome::Approval {
            id: approval.approval_id,
        },
        ..read.clone()
    };
    StepRow {
        turn: id(n),
        n: 1,
        answer: id(n),
        text: String::new(),
        calls: [vec![read.clone()], approvals.iter().map(write).collect()].concat(),
        finish: Finish::ToolCalls,
        at: NOW,
    }
}

/// A turn whose last step asked for these approvals, in these states.
fn waiting(n: u128, states: &[State]) -> OpenTurn {
    let approvals = approvals_in(states);
    OpenTurn {
        turn: turn(n, TurnState::Waiting),
        step: Some(step(n, &approvals)),
        approvals,
    }
}

fn running(n: u128, takeovers: u32, interrupted_at: Option<Millis>) -> OpenTurn {
    let mut row = turn(n, TurnState::Running);
    row.takeovers = takeovers;
    row.interrupted_at = interrupted_at;
    OpenTurn {
        turn: row,
        step: None,
        approvals: Vec::new(),
    }
}

fn message(n: u128) -> InboxRow {
    InboxRow {
        inbox: id(n),
        turn: id(n),
        answer: id(n),
        user: user("ann"),
        message: "m-2".parse().unwrap(),
        text: "And then?".to_owned(),
        at: NOW,
        replaces_from: None,
    }
}

fn next(open: &[OpenTurn], inbox: &[InboxRow]) -> Work {
    next_work(open, inbox, NOW, PLENTY)
}

#[test]
fn calls_come_before_steps_and_steps_before_messages() {
    let call = waiting(1, &[State::Approved]);
    let complete = waiting(2, &[State::Succeeded]);
    let died = running(3, 0, Some(NOW));
    let inbox = [message(4), message(5)];
    assert_eq!(
        next(&[complete.clone(), died.clone(), call], &inbox),
        Work::Call(approval_id(1))
    );
    assert_eq!(
        next(&[complete.clone(), died.clone()], &inbox),
        Work::Continue(id(2))
    );
    assert_eq!(next(&[died, complete], &inbox), Work::TakeOver(id(3)));
    assert_eq!(
        next(&[waiting(1, &[State::Pending])], &inbox),
        Work::Start(id(4)),
        "the conversation goes on while a question is open"
    );
    assert_eq!(next(&[waiting(1, &[State::Pending])], &[]), Work::Idle);
    assert_eq!(next(&[], &[]), Work::Idle);
}

#[test]
fn approved_calls_run_in_any_order_of_answers() {
    let open = waiting(1, &[State::Pending, State::Approved, State::Approved]);
    assert_eq!(next(&[open], &[]), Work::Call(approval_id(2)));
    let open = waiting(1, &[State::Succeeded, State::Rejected, State::Approved]);
    assert_eq!(next(&[open], &[]), Work::Call(approval_id(3)));
}

#[test]
fn a_step_goes_on_once_every_call_is_settled() {
    for state in State::ALL {
        let work = next(&[waiting(1, &[State::Succeeded, state])], &[]);
        let expected = match state {
            State::Pending | State::Executing | State::Superseded => Work::Idle,
            State::Approved => Work::Call(approval_id(2)),
            State::Rejected
            | State::Expired
            | State::Voided
            | State::Blocked
            | State::Succeeded
            | State::Failed
            | State::Unknown
            | State::ResolvedDone
            | State::ResolvedNotDone => Work::Continue(id(1)),
        };
        assert_eq!(work, expected, "{state:?}");
    }
    assert_eq!(next(&[waiting(1, &[])], &[]), Work::Continue(id(1)));
}

#[test]
fn a_successor_completes_the_step_in_the_superseded_ones_place() {
    let mut open = waiting(1, &[State::Superseded, State::Succeeded]);
    open.step = Some(step(1, &open.approvals[1..]));
    assert_eq!(next(&[open], &[]), Work::Continue(id(1)));
}

#[test]
fn an_approval_that_was_not_read_keeps_its_step_open() {
    let mut open = waiting(1, &[State::Succeeded, State::Succeeded]);
    open.approvals.pop();
    assert_eq!(next(&[open], &[]), Work::Idle);
}

#[test]
fn the_runner_finds_what_expired() {
    let limits = [
        (State::Pending, DECIDE_BY),
        (State::Approved, NOW.plus(crate::limits::RUN_WITHIN_MS)),
        (State::Executing, NOW.plus(crate::limits::CLAIM_LEASE_MS)),
    ];
    for (state, limit) in limits {
        let open = [waiting(1, &[state])];
        let at = |now| next_work(&open, &[], now, PLENTY);
        assert_eq!(at(limit), Work::Expire(approval_id(1)), "{state:?}");
        assert_ne!(
            at(limit.plus(-1)),
            Work::Expire(approval_id(1)),
            "{state:?}"
        );
        assert_eq!(
            next_work(&open, &[], limit, 0),
            Work::Expire(approval_id(1)),
            "an expiry needs no time"
        );
    }
    let mut open = waiting(1, &[State::Pending]);
    open.approvals[0].decide_by = crate::Deadline::malformed();
    assert_eq!(next(&[open], &[]), Work::Expire(approval_id(1)));
}

#[test]
fn a_claim_that_lapsed_is_recorded_before_another_call_is_made() {
    let open = [waiting(1, &[State::Approved, State::Executing])];
    let lapsed = NOW.plus(crate::limits::CLAIM_LEASE_MS);
    let at = |now| next_work(&open, &[], now, PLENTY);
    assert_eq!(at(lapsed.plus(-1)), Work::Call(approval_id(1)));
    assert_eq!(at(lapsed), Work::Expire(approval_id(2)));
}

#[test]
fn what_does_not_fit_into_the_time_left_is_handed_over() {
    let call = [waiting(1, &[State::Approved])];
    let complete = [waiting(1, &[State::Failed])];
    let died = [running(1, 0, None)];
    let given_up = [running(1, MAX_TAKEOVERS, None)];
    let inbox = [message(4)];
    let rows: [(&[OpenTurn], &[InboxRow], i64, Work); 4] = [
        (&call, &[], CLAIM_NEEDS_MS, Work::Call(approval_id(1))),
        (&complete, &[], TURN_NEEDS_MS, Work::Continue(id(1))),
        (&died, &[], TURN_NEEDS_MS, Work::TakeOver(id(1))),
        (&[], &inbox, TURN_NEEDS_MS, Work::Start(id(4))),
    ];
    for (open, inbox, needs, work) in rows {
        assert_eq!(next_work(open, inbox, NOW, needs), work);
        assert_eq!(next_work(open, inbox, NOW, needs - 1), Work::HandOver);
        assert_eq!(next_work(open, inbox, NOW, -1), Work::HandOver);
    }
    assert_eq!(
        next_work(&given_up, &[], NOW, 0),
        Work::Interrupt(id(1)),
        "telling needs no time"
    );
    assert_eq!(next_work(&[], &[], NOW, 0), Work::Idle);
}

#[test]
fn whoever_goes_on_with_a_turn_sees_what_else_there_is() {
    let died = running(1, 0, None);
    let complete = waiting(2, &[State::Failed]);
    let asked = waiting(3, &[State::Pending]);
    let inbox = [message(4)];
    let besides = |work, open: &[OpenTurn], inbox: &[InboxRow]| besides(&work, open, inbox, NOW);
    let alone = [died.clone(), asked.clone()];
    assert!(!besides(Work::TakeOver(id(1)), &alone, &[]));
    assert!(!besides(Work::Interrupt(id(1)), &alone, &[]));
    assert!(besides(Work::TakeOver(id(1)), &alone, &inbox));
    let two = [died, complete.clone()];
    assert!(besides(Work::Continue(id(2)), &two, &[]));
    assert!(!besides(Work::Continue(id(2)), &[complete, asked], &[]));
    assert!(!besides(Work::Start(id(4)), &[], &inbox));
    let more = [message(4), message(5)];
    assert!(besides(Work::Start(id(4)), &[], &more));
}

#[test]
fn a_dead_runners_turn_is_taken_over_three_times() {
    for takeovers in 0..3 {
        let open = [running(1, takeovers, Some(NOW))];
        assert_eq!(next(&open, &[]), Work::TakeOver(id(1)), "{takeovers}");
    }
    for takeovers in [3, 4] {
        let open = [running(1, takeovers, Some(NOW))];
        assert_eq!(next(&open, &[]), Work::Interrupt(id(1)), "{takeovers}");
    }
}

#[test]
fn a_turn_is_taken_over_for_an_hour_after_its_interruption() {
    let hour = 60 * 60 * 1000;
    let at = |since: i64| next(&[running(1, 0, Some(NOW.plus(-since)))], &[]);
    assert_eq!(at(hour), Work::TakeOver(id(1)));
    assert_eq!(at(hour + 1), Work::Interrupt(id(1)));
    // A clock that went back makes nothing late.
    assert_eq!(at(-hour), Work::TakeOver(id(1)));
}

#[test]
fn a_turn_row_keeps_its_state_through_storage() {
    let ends = [
        TurnEnd::Complete,
        TurnEnd::Limit {
            sentence: "It took too many steps.".to_owned(),
        },
        TurnEnd::Failed {
            sentence: "The model did not answer.".to_owned(),
        },
        TurnEnd::Interrupted,
        TurnEnd::Replaced,
    ];
    let done = ends.map(|end| TurnState::Done { end });
    for state in [TurnState::Running, TurnState::Waiting]
        .into_iter()
        .chain(done)
    {
        let row = turn(1, state);
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<TurnRow>(&text).unwrap(), row);
        assert_eq!(row.is_done(), matches!(row.state, TurnState::Done { .. }));
    }
}

#[test]
fn a_step_names_its_approvals_in_the_order_of_its_calls() {
    let open = waiting(1, &[State::Pending, State::Approved]);
    let ids: Vec<ApprovalId> = open.step.unwrap().approvals().collect();
    assert_eq!(ids, [approval_id(1), approval_id(2)]);
}

fn any_state() -> impl Strategy<Value = State> {
    prop::sample::select(State::ALL.to_vec())
}

fn any_open() -> impl Strategy<Value = Vec<OpenTurn>> {
    let settled = prop::sample::select(vec![State::Succeeded, State::Rejected, State::Unknown]);
    let state = prop_oneof![2 => settled, 1 => any_state()];
    let one = (prop::collection::vec(state, 0..4), 0..4_u32, any::<bool>());
    prop::collection::vec(one, 0..4).prop_map(|turns| {
        (1..)
            .zip(turns)
            .map(|(n, (states, takeovers, is_running))| {
                if is_running {
                    running(n, takeovers, Some(NOW))
                } else {
                    waiting(n, &states)
                }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_turn_goes_on_while_a_call_of_its_step_is_unsettled(
        open in any_open(),
        lost in any::<prop::sample::Index>(),
        loses in any::<bool>(),
        after in 0..2 * 24 * 60 * 60 * 1000_i64,
    ) {
        let mut open = open;
        if loses && !open.is_empty() {
            let at = lost.index(open.len());
            open[at].approvals.pop();
        }
        let now = NOW.plus(after);
        let approvals = || open.iter().flat_map(|turn| &turn.approvals);
        match next_work(&open, &[message(4)], now, PLENTY) {
            Work::Continue(turn) => {
                let open = open.iter().find(|open| open.turn.turn == turn).unwrap();
                prop_assert_eq!(&open.turn.state, &TurnState::Waiting);
                prop_assert!(open.approvals.iter().all(|approval| approval.state.is_settled()));
                let asked = open.step.as_ref().unwrap().approvals().count();
                prop_assert_eq!(asked, open.approvals.len());
            }
            Work::Call(id) => {
                let runnable = |approval: &&Approval| {
                    approval.state == State::Approved && !approval.run_by().is_over(now)
                };
                let called: Vec<_> = approvals().filter(runnable).collect();
                prop_assert!(called.iter().any(|approval| approval.approval_id == id));
            }
            Work::Expire(id) => {
                let over = |approval: &&Approval| approval.due(now).is_some_and(|due| due <= now);
                let expired: Vec<_> = approvals().filter(over).collect();
                prop_assert!(expired.iter().any(|approval| approval.approval_id == id));
            }
            Work::Start(_) => {
                prop_assert!(approvals().all(|approval| approval.state != State::Approved));
                prop_assert!(open.iter().all(|open| open.turn.state == TurnState::Waiting));
            }
            Work::TakeOver(_) | Work::Interrupt(_) => {
                prop_assert!(approvals().all(|approval| approval.state != State::Approved));
            }
            work @ (Work::HandOver | Work::Idle) => prop_assert!(false, "{:?}", work),
        }
    }
}
