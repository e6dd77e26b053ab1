//! How a server is approached: in the era that it is known to speak, or by finding out.
//!
//! Only `server/discover` and `initialize` are sent for that. Neither can be mistaken for a call, by a
//! server of either era.

use std::time::Duration;

use toshi_core::{Era, EraRule, WireFault};

use crate::session::{NotOpened, Session};
use crate::shot::Fault;
use crate::wire::{QUESTION_WITHIN, Wire};

/// How long a server of unknown era may leave the first question unanswered. Old servers may never
/// answer it, and a turn must not wait for them.
const PROBE_WITHIN: Duration = Duration::from_secs(3);

/// Opens a session: by the catalogue's rule, else in the era that was found out before, else in the
/// newer one. If the server does not speak that, in the other.
pub(crate) async fn open(
    wire: impl Fn(Era) -> Wire,
    rule: EraRule,
    known: Option<Era>,
) -> Result<Session, Fault> {
    let open = |era, within| Session::open(wire(era), era, within);
    if let Some(era) = rule.fixed() {
        let opened = open(era, QUESTION_WITHIN).await;
        return opened.map_err(|not| not.fault);
    }
    let (era, within) = match known {
        Some(era) => (era, QUESTION_WITHIN),
        None => (Era::Stateless, PROBE_WITHIN),
    };
    let first = match open(era, within).await {
        Ok(session) => return Ok(session),
        Err(not) => not,
    };
    // Of a server whose era is known, silence says nothing about it.
    let is_silent = known.is_none() && first.fault.wire == WireFault::Timeout;
    if !first.other_era && !is_silent {
        return Err(first.fault);
    }
    match open(era.other(), QUESTION_WITHIN).await {
        Ok(session) => {
            tracing::info!(
                ?era,
                "a server does not speak this era and was asked in the other"
            );
            Ok(session)
        }
        // It speaks neither: what it said first is about the era that it should speak.
        Err(NotOpened {
            other_era: true, ..
        }) => Err(first.fault),
        Err(second) => Err(second.fault),
    }
}

/// Errors of the stateless protocol that say what is wrong with a request of that protocol.
const ABOUT_A_REQUEST: [i64; 2] = [-32020, -32021];
/// Invalid parameters. The first request has none that could be.
const ABOUT_ITS_PARAMETERS: i64 = -32602;

/// Whether a request on a session that was open was refused as by a server that no longer speaks its
/// era.
pub(crate) fn refuses(fault: &WireFault, era: Era) -> bool {
    let is_about_it = matches!(fault, WireFault::Rpc { code, .. } if *code == ABOUT_ITS_PARAMETERS);
    !is_about_it && is_refusal(fault, era)
}

fn is_refusal(fault: &WireFault, era: Era) -> bool {
    match fault {
        WireFault::HttpStatus { status, .. } => may_not_understand(*status),
        WireFault::Rpc { code, status, .. } => may_not_understand(*status) && !knows(era, *code),
        WireFault::NotSent(_)
        | WireFault::Timeout
        | WireFault::Cut
        | WireFault::TooLarge
        | WireFault::Unfinished(_)
        | WireFault::Other(_) => false,
    }
}

/// The same of the first request, to which a server of its era answers without an error.
pub(crate) fn refuses_to_open(fault: &WireFault, era: Era) -> bool {
    let is_answer = matches!(fault, WireFault::Rpc { code, status: 200..=299, .. }
        if !knows(era, *code));
    is_answer || is_refusal(fault, era)
}

fn knows(era: Era, code: i64) -> bool {
    match era {
        Era::Handshake => false,
        Era::Stateless => ABOUT_A_REQUEST.contains(&code),
    }
}

/// Whether a status may mean that the server does not know what it was asked. Identity and load are
/// other matters.
const fn may_not_understand(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 408 | 429)
}
