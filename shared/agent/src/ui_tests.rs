#[path = "../tests/it/strict.rs"]
mod strict;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use toshi_core::{Approval, BlockReason, CallOutcome, State, StepRow, TurnEnd, TurnState};

use super::*;
use crate::progress::Progress;
use crate::sample;
use strict::Screen;

fn writer() -> Writer {
    Writer::new(sample::id(1), sample::id(2))
}

fn events(writer: &mut Writer) -> Vec<Value> {
    writer
        .take()
        .iter()
        .map(|chunk| strict::read(&chunk.to_event()))
        .collect()
}

fn done(end: TurnEnd) -> TurnRow {
    sample::turn(TurnState::Done { end })
}

/// What a client shows of a replay.
fn replayed(steps: &[StepRow], approvals: &[Approval]) -> Screen {
    let mut writer = writer();
    steps.iter().for_each(|step| writer.step(step, approvals));
    writer.end(Some(&done(TurnEnd::Complete)));
    Screen::of(&events(&mut writer))
}

fn stored(steps: &[StepRow], approvals: &[Approval]) -> Value {
    view::messages(&sample::history(steps, approvals), &[])
        .pop()
        .unwrap()
}

fn words(n: u32, text: &str) -> Progress {
    Progress::Text {
        answer: sample::id(2),
        n,
        delta: text.to_owned(),
    }
}

fn told(step: &StepRow, approvals: &[Approval]) -> Progress {
    Progress::Step {
        step: step.clone(),
        approvals: approvals.to_vec(),
    }
}

#[test]
fn a_call_in_each_state_is_replayed_as_it_is_stored() {
    for n in [1, 2] {
        for state in State::ALL {
            let row = sample::life(n, state).pop().unwrap();
            let step = sample::step(1, "I will.", vec![sample::asking(&row)]);
            let approvals = [row];
            let screen = replayed(std::slice::from_ref(&step), &approvals);
            let mut message = stored(&[step], &approvals);
            // A page is never told that an answer is under way: its client would send it again.
            let part = &mut message["parts"][2];
            match state {
                State::Approved | State::Executing => {
                    assert_eq!(part["state"], "input-available");
                    part["state"] = json!("approval-responded");
                }
                State::Superseded => {
                    // Its successor stands in its step.
                    assert_eq!(screen.states(), ["input-available"]);
                    continue;
                }
                _ => {}
            }
            screen.assert_is_stored_as(&message);
        }
    }
}

#[test]
fn a_question_lived_through_live_shows_what_a_replay_shows() {
    for state in State::ALL {
        let life = sample::life(1, state);
        let step = sample::step(1, "", vec![sample::asking(&life[0])]);
        let mut writer = writer();
        writer.progress(&told(&step, &life[..1]));
        for row in &life[1..] {
            writer.progress(&Progress::Approval(Box::new(row.clone())));
        }
        writer.end(Some(&sample::turn(TurnState::Waiting)));
        let live = Screen::of(&events(&mut writer));
        assert_eq!(live.finish, "tool-calls");
        if state != State::Superseded {
            let last = life.last().unwrap().clone();
            assert_eq!(live.parts, replayed(&[step], &[last]).parts, "{state:?}");
        }
    }
}

#[test]
fn every_other_outcome_of_a_call_is_replayed_as_it_is_stored() {
    let why = || "it was so".to_owned();
    let read = |outcome| CallOutcome::Read { outcome, chunks: 0 };
    let bare = toshi_core::Outcome::Succeeded {
        text: "plain".to_owned(),
        structured: None,
        bytes: 5,
    };
    let outcomes = [
        read(sample::succeeded()),
        read(bare),
        read(toshi_core::Outcome::ReportedError { text: why() }),
        read(toshi_core::Outcome::Refused { why: why() }),
        read(toshi_core::Outcome::NotSent { why: why() }),
        read(toshi_core::Outcome::Unknown { why: why() }),
        CallOutcome::Blocked {
            why: BlockReason::DeniedBefore,
        },
        CallOutcome::Invalid { why: why() },
    ];
    let calls = (1..)
        .zip(outcomes)
        .map(|(n, outcome)| sample::call(n, outcome))
        .collect();
    let step = sample::step(1, "", calls);
    let screen = replayed(std::slice::from_ref(&step), &[]);
    let mut expected = vec!["output-available"; 2];
    expected.extend(["output-error"; 6]);
    assert_eq!(screen.states(), expected);
    screen.assert_is_stored_as(&stored(&[step], &[]));
}

/// A few steps with calls in any state, as chance has it.
fn any_steps(random: &mut StdRng) -> (Vec<StepRow>, Vec<Approval>) {
    let mut approvals = Vec::new();
    let mut steps = Vec::new();
    let mut call = 0;
    for n in 1..=random.random_range(1..5) {
        let text = ["", "One.", "Two words.", "Three more words."][random.random_range(0..4)];
        let calls = (0..random.random_range(0..4)).map(|_| {
            call += 1;
            if random.random_bool(0.5) {
                let outcome = toshi_core::Outcome::Refused {
                    why: "no".to_owned(),
                };
                return sample::call(call, CallOutcome::Read { outcome, chunks: 0 });
            }
            let states: Vec<State> = State::ALL
                .into_iter()
                .filter(|state| *state != State::Superseded)
                .collect();
            let state = states[random.random_range(0..states.len())];
            let mut row = sample::life(call, state).pop().unwrap();
            row.step = n;
            let asking = sample::asking(&row);
            approvals.push(row);
            asking
        });
        let calls = calls.collect();
        steps.push(sample::step(n, text, calls));
    }
    (steps, approvals)
}

#[test]
fn a_live_stream_a_follower_and_a_replay_show_the_same() {
    let mut random = StdRng::seed_from_u64(11);
    for _ in 0..300 {
        let (steps, approvals) = any_steps(&mut random);
        let replay = replayed(&steps, &approvals);

        let mut live = writer();
        for step in &steps {
            // Some of the text is streamed before the step is stored: all, a part, or nothing.
            let streamed = step.text.len() * random.random_range(0..=2) / 2;
            for word in step.text[..streamed].split_inclusive(' ') {
                live.progress(&words(step.n, word));
            }
            live.progress(&told(step, &approvals));
        }
        live.end(Some(&done(TurnEnd::Complete)));
        assert_eq!(Screen::of(&events(&mut live)), replay);

        // A follower sees all stored steps at each look, and more of them each time.
        let mut follower = writer();
        for seen in 1..=steps.len() {
            steps[..seen]
                .iter()
                .for_each(|step| follower.step(step, &approvals));
        }
        follower.end(Some(&done(TurnEnd::Complete)));
        assert_eq!(Screen::of(&events(&mut follower)), replay);
    }
}

#[test]
fn what_the_store_says_beyond_the_stream_is_told_at_the_end() {
    let step = sample::step(1, "Half … (cut off)", Vec::new());
    let mut writer = writer();
    writer.progress(&words(1, "Half"));
    writer.progress(&told(&step, &[]));
    writer.end(Some(&done(TurnEnd::Complete)));
    let screen = Screen::of(&events(&mut writer));
    screen.assert_is_stored_as(&stored(&[step], &[]));
}

#[test]
fn words_of_another_message_or_of_a_stored_step_are_not_told() {
    let mut writer = writer();
    let step = sample::step(1, "Stored.", Vec::new());
    writer.step(&step, &[]);
    writer.progress(&words(1, "late"));
    let other = Progress::Text {
        answer: sample::id(3),
        n: 2,
        delta: "foreign".to_owned(),
    };
    writer.progress(&other);
    let foreign = StepRow {
        answer: sample::id(3),
        ..sample::step(2, "foreign", Vec::new())
    };
    writer.step(&foreign, &[]);
    writer.progress(&Progress::Approval(Box::new(sample::approval(9))));
    writer.end(None);
    let screen = Screen::of(&events(&mut writer));
    assert_eq!(screen.text(), "Stored.");
    assert_eq!(screen.finish, "other");
}

/// What a client shows of the first response: a step with this question.
fn asked(row: &Approval) -> (StepRow, Screen) {
    let step = sample::step(1, "", vec![sample::asking(row)]);
    let mut first = writer();
    first.step(&step, std::slice::from_ref(row));
    first.end(Some(&sample::turn(TurnState::Waiting)));
    let screen = Screen::of(&events(&mut first));
    (step, screen)
}

#[test]
fn a_continuation_tells_outcomes_first_and_repeats_nothing() {
    for state in State::ALL.into_iter().filter(|state| state.is_settled()) {
        let life = sample::life(1, state);
        let (step, mut screen) = asked(&life[0]);
        let id = life[0].approval_id.to_string();
        screen.answer(&id, state != State::Rejected, Some("So it is"));
        let row = life.last().unwrap();
        let mut second = writer();
        second.known(&step);
        second.answered(row, state != State::Rejected);
        second.approval(row);
        assert!(!second.owes(row), "{state:?}");
        second.step(&sample::step(2, "Well.", Vec::new()), &[]);
        second.end(Some(&done(TurnEnd::Complete)));
        let chunks = events(&mut second);
        assert!(
            chunks[1]["type"]
                .as_str()
                .unwrap()
                .starts_with("tool-output-"),
            "{chunks:#?}"
        );
        assert_eq!(chunks[2]["type"], "start-step");
        let screen = screen.after(&chunks);
        assert!(!screen.would_send_again());
        assert_eq!(screen.text(), "Well.");
    }
}

#[test]
fn an_open_answered_call_is_owed_until_it_is_asked_again_or_settled() {
    let life = sample::life(1, State::Superseded);
    let (step, mut screen) = asked(&life[0]);
    screen.answer(&life[0].approval_id.to_string(), true, None);
    assert!(screen.would_send_again());
    let old = life.last().unwrap();
    let mut second = writer();
    second.known(&step);
    second.answered(old, true);
    second.approval(old);
    assert!(second.owes(old));
    let successor = Approval {
        approval_id: sample::id(201),
        ..sample::approval(1)
    };
    second.approval(&successor);
    assert!(!second.owes(old));
    second.end(Some(&sample::turn(TurnState::Waiting)));
    let screen = screen.after(&events(&mut second));
    assert_eq!(screen.states(), ["approval-requested"]);
    assert_eq!(
        screen.calls()[0]["approval"]["id"],
        successor.approval_id.to_string()
    );
    assert!(!screen.would_send_again());
}

#[test]
fn the_recorded_answer_replaces_another_one_that_the_client_shows() {
    let life = sample::life(1, State::Rejected);
    let (step, mut screen) = asked(&life[0]);
    screen.answer(&life[0].approval_id.to_string(), true, None);
    let mut second = writer();
    second.known(&step);
    second.answered(&life[1], true);
    second.approval(&life[1]);
    second.end(None);
    let screen = screen.after(&events(&mut second));
    assert_eq!(screen.states(), ["output-denied"]);
    assert_eq!(screen.calls()[0]["approval"]["approved"], false);
}

#[test]
fn each_end_of_a_turn_has_its_finish() {
    let sentence = || "It failed.".to_owned();
    let rows = [
        (Some(sample::turn(TurnState::Waiting)), "tool-calls", None),
        (Some(sample::turn(TurnState::Running)), "other", None),
        (Some(done(TurnEnd::Complete)), "stop", None),
        (
            Some(done(TurnEnd::Limit {
                sentence: sentence(),
            })),
            "stop",
            None,
        ),
        (Some(done(TurnEnd::Interrupted)), "stop", None),
        (Some(done(TurnEnd::Replaced)), "stop", None),
        (
            Some(done(TurnEnd::Failed {
                sentence: sentence(),
            })),
            "error",
            Some(sentence()),
        ),
        (None, "other", None),
    ];
    for (turn, finish, error) in rows {
        let mut writer = writer();
        writer.progress(&words(1, "Half a"));
        writer.end(turn.as_ref());
        let screen = Screen::of(&events(&mut writer));
        assert_eq!((screen.finish.as_str(), &screen.error), (finish, &error));
    }
}

#[test]
fn a_note_and_a_failure_close_what_is_open() {
    let mut noted = writer();
    noted.progress(&words(1, "Half a"));
    noted.note("Still working.");
    noted.end(None);
    assert_eq!(
        Screen::of(&events(&mut noted)).text(),
        "Half a\nStill working."
    );
    let mut failed = writer();
    failed.progress(&words(1, "Half a"));
    failed.fail("It failed.");
    let screen = Screen::of(&events(&mut failed));
    assert_eq!(screen.error.as_deref(), Some("It failed."));
}

#[test]
fn a_chunk_stays_in_one_event_whatever_it_says() {
    let delta = "a\n\ndata: [DONE]\n\n\u{2028}\r";
    let chunk = Chunk::TextDelta {
        id: "t1".to_owned(),
        delta: delta.to_owned(),
    };
    assert_eq!(strict::read(&chunk.to_event())["delta"], delta);
}
