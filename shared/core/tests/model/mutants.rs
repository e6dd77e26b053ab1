//! Worlds in which a guard is missing: each breaks a promise, or the model would show nothing.

use crate::config::Config;
use crate::configs::{difficult_tool, message, one_write, two_answers, two_writes};
use crate::rule::Rule;
use crate::{breaks, holds};

#[test]
fn without_the_claims_condition_a_call_takes_effect_twice() {
    let rules = [Rule::ClaimRowAsRead, Rule::RecordIsNew];
    let config = Config {
        ticks: 1,
        ..one_write()
    };
    breaks(config.without(&rules, "a call takes effect at most once"));
}

#[test]
fn without_the_check_at_the_claim_an_identical_call_runs_beside_an_unknown_one() {
    breaks(two_writes().without(
        &[Rule::NoUnknownAtClaim],
        "an unknown outcome blocks an identical call",
    ));
}

#[test]
fn if_only_the_sweep_sees_lapsed_claims_a_call_is_made_past_one() {
    breaks(two_writes().without(
        &[Rule::LapsedFirst],
        "a lapsed claim is recorded before the next call",
    ));
}

#[test]
fn a_settle_without_the_attempts_id_records_what_did_not_happen() {
    breaks(difficult_tool().without(
        &[Rule::SettleOwnAttempt],
        "a recorded outcome is what happened",
    ));
}

#[test]
fn a_claim_looked_up_without_the_attempts_id_sends_a_call_twice() {
    breaks(one_write().without(
        &[Rule::LookUpOwnAttempt],
        "a call takes effect at most once",
    ));
}

#[test]
fn a_release_without_the_check_of_wake_leaves_work_behind() {
    breaks(one_write().without(&[Rule::ReleaseIfSeen], "what waits for a runner is due"));
}

#[test]
fn if_only_the_sweep_expires_a_late_answer_counts() {
    breaks(two_answers().without(
        &[Rule::DecideInTime],
        "nothing is decided or claimed after its time",
    ));
}

#[test]
fn if_only_the_sweep_expires_a_late_claim_counts() {
    breaks(one_write().without(
        &[Rule::ClaimInTime],
        "nothing is decided or claimed after its time",
    ));
}

#[test]
fn a_sweep_that_approves_again_sends_a_call_twice() {
    breaks(one_write().without(
        &[Rule::AbandonIsUnknown],
        "a call takes effect at most once",
    ));
}

#[test]
fn a_call_before_its_claim_is_not_on_record() {
    breaks(one_write().without(
        &[Rule::ClaimBeforeSend],
        "an attempt is on record before it is sent",
    ));
}

#[test]
fn a_second_attempt_must_be_recorded_too() {
    breaks(difficult_tool().without(
        &[Rule::RecordBeforeAgain],
        "an attempt is on record before it is sent",
    ));
}

#[test]
fn a_call_that_is_sent_late_is_no_longer_claimed() {
    breaks(one_write().without(
        &[Rule::SendWithinLease],
        "a call is sent only while it is claimed",
    ));
}

#[test]
fn a_retry_after_a_lost_reply_does_it_twice() {
    breaks(one_write().without(&[Rule::NeverAgain], "a call takes effect at most once"));
}

#[test]
fn without_a_version_the_second_answer_overwrites_the_first() {
    let rules = [Rule::RowAsRead, Rule::RecordIsNew];
    breaks(two_answers().without(&rules, "an answer on record stays"));
}

#[test]
fn taking_a_held_lease_makes_two_runners() {
    let config = Config {
        slow_takes: true,
        ..one_write()
    };
    breaks(config.without(&[Rule::TakeIfFree], "a fence has one runner"));
}

#[test]
fn a_fence_that_does_not_grow_has_two_runners() {
    breaks(one_write().without(&[Rule::TakeCounts], "a fence has one runner"));
}

#[test]
fn a_message_that_starts_beside_a_runner_makes_two() {
    breaks(message().without(&[Rule::StartIfFree], "a fence has one runner"));
}

#[test]
fn without_the_fence_a_late_runner_continues_a_step_again() {
    breaks(one_write().without(&[Rule::CommitFenced], "a step is continued at most once"));
}

#[test]
fn a_last_step_that_lets_go_of_other_work_leaves_it_behind() {
    breaks(message().without(&[Rule::ReleaseIfAlone], "what waits for a runner is due"));
}

#[test]
fn reading_wake_after_the_rows_leaves_work_behind() {
    breaks(one_write().without(&[Rule::WakeBeforeRows], "what waits for a runner is due"));
}

#[test]
fn a_settle_that_wakes_nobody_leaves_its_turn_behind() {
    breaks(one_write().without(&[Rule::SettleWakes], "what waits for a runner is due"));
}

#[test]
fn a_bump_that_is_not_due_is_lost_with_its_hint() {
    breaks(one_write().without(
        &[Rule::WakeIsDue],
        "left alone, every turn ends and every yes is carried out",
    ));
}

#[test]
fn without_the_check_at_the_question_an_identical_call_is_asked_beside_an_unknown_one() {
    breaks(message().without(
        &[Rule::NoUnknownAtAsk],
        "an unknown outcome blocks an identical call",
    ));
}

/// The row's version and the number of its next record each stop a second claim alone.
#[test]
fn either_condition_of_the_claim_is_enough() {
    for rule in [Rule::ClaimRowAsRead, Rule::RecordIsNew] {
        holds(Config {
            off: vec![rule],
            shows: vec!["two runners are at work"],
            ticks: 1,
            ..one_write()
        });
    }
}
